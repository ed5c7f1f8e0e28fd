"""The best choices of a run: nothing of the grid is better, a stopped race keeps what it has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from windtunnel.cli.main import app
from windtunnel.errors import BadInput, Infeasible
from windtunnel.runs.event_loop.replicate import plain
from windtunnel.runs.prepare_run import with_run
from windtunnel.runs.run_bill import replicated
from windtunnel.runs.search import RunSearchResult, host_bytes, search_run, tiers_words
from windtunnel.runs.simulate import prepared_run, simulate_run
from windtunnel.specs.run import CheckpointTier

TIERS: list[list[dict[str, Any]]] = [
    [{"to": "storage"}],
    [{"to": "peer", "mode": "async"}, {"to": "storage", "mode": "async", "every": 8}],
]
SLOW = {"to": "storage", "mode": "async", "save_s": 900}
BASE: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 16, "devices_per_node": 8},
    "training": {"seq_len": 8192, "global_batch": 256, "framework": "megatron_core"},
    "plan": {"tp": 2, "pp": 1, "zero": 1, "recompute": "none"},
    "run": {
        "tokens": "1T",
        "failures": "opt-175b-2022",
        "checkpoint": {"interval": "1 h"},
        "recovery": {"spares": 1},
        "replications": 16,
        "grid": "germany",
        "search": {"intervals": ["10 min", "1 h", "6 h"], "spares": [0, 1, 3], "tiers": TIERS},
    },
}


def asked(**search: Any) -> dict[str, Any]:
    return {**BASE, "run": {**BASE["run"], "search": {**BASE["run"]["search"], **search}}}


@pytest.fixture(scope="module")
def found() -> RunSearchResult:
    return search_run(BASE)


def test_nothing_of_the_grid_is_better(found: RunSearchResult) -> None:
    base = prepared_run(BASE)
    means = {}
    for tiers in TIERS:
        for interval in (600.0, 3600.0, 21600.0):
            for spares in (0, 1, 3):
                run = {**BASE["run"], "checkpoint": {"interval": interval, "tiers": tiers}}
                x = with_run(base, type(base.run).model_validate(run))
                nodes = x.program.nodes._replace(spares=spares)
                x = x.with_program(type(x.program)(**{**_fields(x.program), "nodes": nodes}))
                means[tiers_words(x.run.checkpoint.tiers), x.program.job.interval_s, spares] = float(
                    replicated(x, 16)[0].sum(axis=1).mean() / 86400.0
                )
    assert found.best.days == pytest.approx(min(means.values()), rel=1e-9)
    best = (found.best.tiers, found.best.interval_s, found.best.spares)
    assert means[best] == pytest.approx(found.best.days, rel=1e-9)
    assert found.complete and found.choices == 18
    for curve in found.curves.values():
        for one in curve:
            assert one.behind is None or one.behind >= -1e-9


def _fields(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in type(record).__dataclass_fields__}


def test_the_front_is_not_beaten_by_any_choice_that_was_run(found: RunSearchResult) -> None:
    seen = [*found.front, *(c for curve in found.curves.values() for c in curve if c.replications >= 16)]
    for one in found.front:
        assert not any(c.days < 0.995 * one.days and c.run_cost < 0.995 * one.run_cost for c in seen)
    assert found.written is not None and found.written.behind is not None and found.written.behind > 0


def test_the_best_choice_is_written_as_a_scenario(found: RunSearchResult) -> None:
    again = simulate_run(found.scenario, sensitivities=False)
    assert again.days["mean"] == pytest.approx(found.best.days, rel=1e-6)
    assert again.spares == found.best.spares
    assert "search" not in found.scenario["run"]


def test_money_takes_no_more_than_days_do(found: RunSearchResult) -> None:
    cheap = search_run(asked(objective="run_cost"))
    assert cheap.best.run_cost <= found.best.run_cost
    assert cheap.best.days >= found.best.days


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_done() -> None:
    calls = []

    def stopping(*args: Any) -> Any:
        calls.append(1)
        if len(calls) > 300:
            raise KeyboardInterrupt
        return plain(*args)

    usual = {**BASE["run"], "replications": 4096, "search": None}
    result = search_run({**BASE, "run": usual}, run=stopping)
    assert not result.complete and result.best.replications >= 2 and result.front
    with pytest.raises(KeyboardInterrupt):
        calls[:] = [1] * 300  # before anything was run
        search_run({**BASE, "run": usual}, run=stopping)


@pytest.mark.parametrize(
    ("run", "error", "rule"),
    [
        ({"search": {"spares": [17]}}, BadInput, "run.search.spares"),
        ({"search": {"spares": []}}, BadInput, "at least one"),
        ({"search": {"objective": "carbon_kg"}, "grid": None}, BadInput, "run.grid"),
        ({"search": {"objective": "day"}}, BadInput, "objective"),
        ({"search": {"intervals": ["0.1 s"], "tiers": TIERS[:1]}}, Infeasible, "one step"),
        (
            {"search": {"intervals": ["4 s"], "tiers": [[{"to": "storage", "mode": "async", "save_s": 900}]]}},
            Infeasible,
            "every",
        ),
    ],
)
def test_bad_questions_get_a_line(run: dict[str, Any], error: type[Exception], rule: str) -> None:
    asked = {name: value for name, value in {**BASE["run"], **run}.items() if value is not None}
    with pytest.raises(error, match=rule) as caught:
        search_run({**BASE, "run": asked})
    assert len(str(caught.value).splitlines()) == 1


def test_copies_that_do_not_fit_in_host_memory_are_left_out() -> None:
    x = prepared_run(BASE)
    peer = (CheckpointTier(to="peer", mode="async", keep=2),)
    devices = x.prepared.cluster.devices_per_node
    assert host_bytes(x, peer) == pytest.approx(4 * devices * x.state.largest_held)  # weights of every replica
    once = (CheckpointTier(to="peer", mode="async", keep=2, every_replica=False),)
    assert host_bytes(x, once) == pytest.approx(4 * x.state.total / 16)
    small = {**BASE, "cluster": {**BASE["cluster"], "host_memory_bytes": "20 GB"}}
    result = search_run(small)
    assert any("host memory" in rule for rule in result.left_out)
    assert "peer" not in result.best.tiers


def test_the_verb(tmp_path: Path) -> None:
    import yaml

    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump(BASE), "utf-8")
    out, report = tmp_path / "best.yaml", tmp_path / "report.html"
    run = CliRunner().invoke(
        app, ["run", str(file), "--search", "--json", "--output", str(out), "--report", str(report)]
    )
    assert run.exit_code == 0, run.output
    data = json.loads(run.stdout)
    assert data["best"]["days"] < data["written"]["days"]
    assert np.isfinite(data["best"]["run_cost"])
    assert yaml.safe_load(out.read_text())["run"]["recovery"]["spares"] == data["best"]["spares"]
    assert "Days against dollars" in report.read_text()
    plain = CliRunner().invoke(app, ["run", str(file), "--search"])
    assert plain.exit_code == 0 and "fewest days" in plain.stdout
    alone = CliRunner().invoke(app, ["run", str(file), "--output", str(out)])
    assert isinstance(alone.exception, BadInput)
