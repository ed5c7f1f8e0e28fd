"""Cells a second of a sweep, and queries over many stored cells.

    python benchmarks/bench_sweep.py [--cells 5000] [--stored 1000000] [-j 1] [--estimates]

Cells are training steps of a 70B on 64 to 1,024 H100, each with another plan or batch. Stored cells are synthetic rows
in as many shards as a sweep of that size leaves.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from windtunnel.sweeps.axes import read_axes
from windtunnel.sweeps.define import Asked, define
from windtunnel.sweeps.definition import Definition
from windtunnel.sweeps.execute import Progress, Wishes, execute
from windtunnel.sweeps.shards import duckdb
from windtunnel.sweeps.start import Where, executor_of
from windtunnel.sweeps.store import Store
from windtunnel.sweeps.views import query

SCENARIO = Path(__file__).parents[1] / "examples" / "llama3-70b-64xh100.yaml"
VARY = (
    "plan.tp=1,2,4,8",
    "plan.pp=2,4,5,8,10",
    "plan.mbs=1,2,4",
    "plan.zero=0,1,2",
    "cluster.nodes=8..128:x2",
    "training.global_batch=128..2048:x2",
)
QUERIES = (
    "SELECT status, count(*) FROM cells GROUP BY ALL",
    'SELECT "x.plan.tp", min(step_time_s) FROM ok GROUP BY ALL',
    "SELECT * FROM frontier",
    "SELECT * FROM ok ORDER BY step_time_s LIMIT 20",
)
SHARD_ROWS = 100_000
"""Of what merges leave: 32 times 32 shards of some hundred rows become one."""
FIGURES = 90
"""Further columns of a stored row: those of a training step are 106."""
EXAMPLES = SCENARIO.parent
SHARES = (0.1, 0.25, 0.5, 0.75)
ESTIMATED = {
    "train 70B": Asked(
        source=SCENARIO, vary=(*VARY[:-1], "training.global_batch=256,512,1024"), overrides=("plan.vpp=1", "plan.cp=1")
    ),
    "serve 70B": Asked(
        source=EXAMPLES / "serving" / "llama3-70b-4xh100.yaml",
        vary=(
            "serving.traffic.rate_per_s=0.5..8:24",
            "serving.pools.0.limits.max_num_seqs=16,64,256",
            "serving.traffic.num_requests=4000,20000",
            "serving.precision.weights=[bf16, fp8]",
        ),
    ),
    "learn": Asked(
        source=EXAMPLES / "learning" / "diloco-1b-four-sites.yaml",
        vary=("learning.steps=60,120,240,480", "learning.seed=1..36:+1"),
        overrides=("learning.seeds=1",),
    ),
}
"""Sweeps of unlike cells that estimates are judged by."""


def computed(cells: int, processes: int) -> None:
    """Compute cells and say how many a second, and how good the estimate was on the way."""
    definition = define(Asked(source=SCENARIO, vary=VARY, overrides=("plan.vpp=1", "plan.cp=1")))
    cut = tuple(read_axes([*VARY[:-1], f"{VARY[-1].split('=')[0]}={_batches(cells)}"], []))
    definition = define(
        Asked(source=SCENARIO, vary=tuple(_text(a) for a in cut), overrides=("plan.vpp=1", "plan.cp=1"))
    )
    told: list[tuple[float, float]] = []

    def report(p: Progress) -> None:
        if p.left_s is not None:
            told.append((p.seconds, p.left_s))

    with tempfile.TemporaryDirectory() as folder:
        executor = executor_of(Where(processes=processes), definition, len(definition))
        before = time.process_time()
        outcome = execute(definition, Path(folder) / "s", Wishes(executor=executor, report=report))
        cpu = time.process_time() - before
        p = outcome.progress
        ok = p.statuses.get("ok", 0)
        print(
            f"{p.done:,} cells ({ok:,} ok) in {p.seconds:.1f} s with {processes} processes: "
            f"{p.done / p.seconds:.1f} cells/s"
        )
        if processes == 1:
            print(f"  {ok / cpu:.1f} ok cells a CPU second of one core")
        print(f"  {_ratios(told, p.seconds)}")


def _ratios(told: list[tuple[float, float]], took_s: float) -> str:
    """What estimates said to be left, over what then was."""
    parts = []
    for share in SHARES:
        known = [one for one in told if one[0] >= share * took_s]
        at, left = known[0] if known else told[-1]
        parts.append(
            f"{left / max(took_s - at, 1e-9):.2f} at {share:.0%}" if known and left else f"none at {share:.0%}"
        )
    return f"estimate of what is left, times what was: {', '.join(parts)}"


def estimated(processes: int) -> None:
    """How the estimate of what is left holds on sweeps of several verbs, whose cells cost unlike amounts."""
    for name, asked in ESTIMATED.items():
        definition = define(asked)
        told: list[tuple[float, float]] = []

        def report(p: Progress, told: list[tuple[float, float]] = told) -> None:
            if p.left_s is not None:
                told.append((p.seconds, p.left_s))

        with tempfile.TemporaryDirectory() as folder:
            executor = executor_of(Where(processes=processes), definition, len(definition))
            p = execute(definition, Path(folder) / "s", Wishes(executor=executor, report=report)).progress
            statuses = ", ".join(f"{count:,} {status}" for status, count in sorted(p.statuses.items()))
            cells = f"{name}: {p.done:,} cells ({statuses})"
            print(f"{cells} in {p.seconds:.0f} s with {processes} processes at a load of {os.getloadavg()[0]:.1f}")
            print(f"  {_ratios(told, p.seconds)}", flush=True)


def _text(axis: object) -> str:
    from windtunnel.sweeps.start import listed

    return f"{axis.fields[0]}={listed([v for (v,) in axis.values])}"  # type: ignore[attr-defined]


def _batches(cells: int) -> str:
    others = 4 * 5 * 3 * 3 * 5
    return ",".join(str(128 * (i + 1)) for i in range(max(1, round(cells / others))))


def stored(rows: int) -> None:
    """Time queries over many rows."""
    definition = Definition(
        verb="train", scenario={}, folder="/", axes=tuple(read_axes(["plan.tp=1..8:+1", f"n=1..{rows // 8}:+1"], []))
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "s"
        with Store(folder, definition):
            pass
        connection = duckdb().connect()
        figures = ", ".join(f"random() AS figure_{k}" for k in range(FIGURES))
        for shard in range(rows // SHARD_ROWS):
            connection.execute(
                f"COPY (SELECT md5((i + {shard * SHARD_ROWS})::VARCHAR) AS cell, 'train' AS verb, "
                "CASE WHEN i % 5 = 0 THEN 'invalid' ELSE 'ok' END AS status, "
                "CASE WHEN i % 5 = 0 THEN 'plan' ELSE '' END AS reason, "
                'NULL::BIGINT AS draw, 1::BIGINT AS attempt, (i % 8 + 1)::BIGINT AS "x.plan.tp", i AS "x.n", '
                "random() AS step_time_s, random() AS peak_memory_reserved_bytes, true AS memory_fits, "
                f"{figures}, 0.05 AS wall_s FROM range({SHARD_ROWS}) t(i)) "
                f"TO '{folder}/cells/part-{shard}.parquet' (FORMAT parquet, COMPRESSION zstd)"
            )
        size = sum(p.stat().st_size for p in (folder / "cells").iterdir()) / 1e6
        print(f"{rows:,} stored cells in {rows // SHARD_ROWS} shards, {size:.0f} MB")
        for sql in QUERIES:
            query(folder, sql)
            begun = time.perf_counter()
            query(folder, sql)
            print(f"  {time.perf_counter() - begun:.2f} s  {sql}")


def main() -> None:
    """Time both."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cells", type=int, default=5000)
    parser.add_argument("--stored", type=int, default=1_000_000)
    parser.add_argument("-j", type=int, default=1)
    parser.add_argument("--estimates", action="store_true", help="sweeps of several verbs, and how estimates hold")
    given = parser.parse_args()
    if given.stored:
        stored(given.stored)
    if given.cells:
        computed(given.cells, given.j)
    if given.estimates:
        estimated(given.j)


if __name__ == "__main__":
    main()
