"""Speed of a training prediction, beside what peers need: from process start to result, and in process.

Run `python benchmarks/bench_training.py [--repeat K] [--check] [--json]`. Every figure is the median of K runs; the
bars are those of the design (warm file cache, compiled kernels cached, an idle machine). `--check` exits 1 when a bar
is missed. Peers' figures were measured on other machines; benchmarks/README.md says by whom and on what.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table. Times in seconds, rates in tasks per second."""

    what: str
    ours: float
    bar: float
    unit: str
    peer: str
    detail: str = ""

    @property
    def holds(self) -> bool:
        """Whether the bar is met."""
        return self.ours >= self.bar if self.unit == "tasks/s" else self.ours <= self.bar


def median_s(run: Callable[[], object], repeat: int, *, warm: int = 1) -> float:
    """Median seconds of `repeat` runs after `warm` runs that do not count."""
    for _ in range(warm):
        run()
    seconds = []
    for _ in range(repeat):
        started = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def process_s(arguments: list[str], repeat: int) -> float:
    """Median seconds from process start to its end, with byte code cached as an installed command has it."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-m", "windtunnel.cli.main", *arguments]

    def run() -> None:
        subprocess.run(command, env=environment, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)

    return median_s(run, repeat)


def many_stages() -> dict[str, Any]:
    """GPT-530B (Narayanan et al. 2021, table 1) on 280 A100: 35 stages of 3 chunks, 315 micro-batches."""
    model = {
        "name": "GPT-530B",
        "family": "dense",
        "hidden_size": 20480,
        "num_hidden_layers": 105,
        "vocab_size": 51200,
        "num_attention_heads": 128,
        "intermediate_size": 81920,
        "gated_mlp": False,
        "norm": "layernorm",
        "position_embedding": "learned",
        "max_position_embeddings": 2048,
        "tie_word_embeddings": True,
    }
    return {
        "model": model,
        "cluster": {"device": "a100-sxm-80gb", "nodes": 35, "devices_per_node": 8},
        "training": {"seq_len": 2048, "global_batch": 315, "framework": "megatron_2021", "precision": "fp16"},
        "plan": {"tp": 8, "pp": 35, "vpp": 3, "mbs": 1, "zero": 0, "recompute": {"policy": "full"}},
    }


def step_figure(what: str, source: Any, repeat: int, bar: float, peer: str) -> Figure:
    """A step in process: resolved, lowered, simulated, memory and breakdown accounted for; no sensitivities."""
    from windtunnel.training.predict import load, prepare
    from windtunnel.training.simulate_step import simulate_step

    scenario = load(source)[0]
    result = []

    def run() -> None:
        prepared, _ = prepare(scenario)
        result.append((simulate_step(prepared), len(prepared.program.tasks)))

    seconds = median_s(run, repeat, warm=2)
    step, tasks = result[-1]
    assert step.breakdown and step.memory.peak_reserved_bytes > 0
    return Figure(
        what,
        seconds,
        bar,
        "s",
        peer,
        f"{tasks:,} tasks; predicts {step.step_time_s:.2f} s, {step.peak_memory_reserved_bytes / 2**30:.0f} GiB",
    )


def collective_figure(repeat: int) -> Figure:
    """A 64 MB all-reduce over every rank of 2,048 nodes, without anything remembered between runs."""
    from windtunnel.network.groups import placement
    from windtunnel.network.model import NetworkModel
    from windtunnel.training.predict import load, prepare

    cluster = prepare(load(EXAMPLES / "llama3-405b-16384xh100.yaml")[0])[0].cluster
    found = []

    def run() -> None:
        found.append(NetworkModel(cluster).collective("all_reduce", np.float64(64e6), placement(16384, 1, 8)))

    seconds = median_s(run, 5 * repeat)
    return Figure(
        "64 MB all-reduce, 16,384 ranks",
        seconds,
        2e-3,
        "s",
        "SimGrid (C++): 10 s at 1,024 ranks",
        f"predicts {float(found[-1].alone_s) * 1e3:.2f} ms",
    )


def engine_figure(repeat: int) -> Figure:
    """Engine tasks per second on the workload of bench_engine.py, best of the runs as there."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from bench_engine import workload

    from windtunnel.engine import simulate

    simulate(*workload(1000))
    program = workload(1_000_000)
    best = float("inf")
    for _ in range(repeat):
        started = time.perf_counter()
        simulate(*program)
        best = min(best, time.perf_counter() - started)
    return Figure(
        "engine, 1 M tasks on one core", 1e6 / best, 2e6, "tasks/s", "SimPy: 0.2 M tasks/s", "best of the runs"
    )


def figures(repeat: int) -> list[Figure]:
    """All figures, in the order of the table."""
    example = str(EXAMPLES / "llama3-70b-64xh100.yaml")
    return [
        Figure("windtunnel --help, process", process_s(["--help"], repeat), 0.4, "s", "—"),
        Figure(
            "windtunnel train, process start to result",
            process_s(["train", example], repeat),
            2.0,
            "s",
            "—",
            "Llama-3.1-70B on 64 H100, six simulations (sensitivities)",
        ),
        step_figure("pp 35 · vpp 3 · 315 micro-batches", many_stages(), repeat, 0.1, "SimuMax: 47 s"),
        step_figure("Llama-3.1-405B on 16,384 H100", EXAMPLES / "llama3-405b-16384xh100.yaml", repeat, 0.2, "—"),
        collective_figure(repeat),
        engine_figure(repeat),
    ]


def _shown(value: float, unit: str) -> str:
    if unit == "tasks/s":
        return f"{value / 1e6:.2f} M/s"
    return f"{value * 1e3:.2f} ms" if value < 0.01 else f"{value:.3f} s"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--check", action="store_true", help="exit 1 when a bar is missed")
    options = parser.parse_args()
    rows = figures(options.repeat)
    if options.json:
        print(json.dumps([{**asdict(row), "holds": row.holds} for row in rows], indent=1))
    else:
        print(f"{'':42s} {'ours':>10s} {'bar':>10s}       peer")
        for row in rows:
            verdict = "ok" if row.holds else "MISSED"
            ours, bar = _shown(row.ours, row.unit), _shown(row.bar, row.unit)
            print(f"{row.what:42s} {ours:>10s} {bar:>10s} {verdict:6s} {row.peer}")
            if row.detail:
                print(f"    {row.detail}")
        load = os.getloadavg()[0]
        print(f"median of {options.repeat} runs; load average {load:.1f} on {os.cpu_count()} cores")
    if options.check and not all(row.holds for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
