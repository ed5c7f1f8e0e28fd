"""Advice on whole runs: techniques that act on a run alone, ranked by days, dollars and energy in paired runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from windtunnel import api
from windtunnel.advice import Advice, advise
from windtunnel.advice.costs import costs_of
from windtunnel.advice.run_bench import FIGURES, FIRST, RunBench
from windtunnel.cli.main import run
from windtunnel.errors import BadInput
from windtunnel.runs.simulate import prepared_run
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.limits import merged

pytestmark = pytest.mark.xdist_group("advice on a run")

FAILING: dict[str, Any] = {
    "name": "failing",
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 8, "devices_per_node": 8},
    "training": {"seq_len": 8192, "global_batch": 128, "framework": "megatron_core"},
    "plan": {"tp": 4, "pp": 2, "zero": 1, "mbs": 1},
    "run": {
        "tokens": "100B",
        "failures": {"causes": [{"name": "hang", "per_1000_node_days": 400, "detect_s": 1800, "diagnose_s": 1800}]},
        "checkpoint": {"interval": "1 h"},
        "replications": 64,
        "grid": "germany",
    },
}


@pytest.fixture(scope="module")
def advice() -> Advice:
    return advise(FAILING, pairs=False)


def listed(advice: Advice) -> dict[str, Any]:
    return {s.names[0]: s for s in (*advice.suggestions, *advice.settings, *advice.unlike)}


@pytest.mark.slow
def test_a_scenario_with_a_run_is_advised_on_its_days(advice: Advice) -> None:
    assert advice.objective.id == "days" and advice.of_a_run
    assert advice.value == pytest.approx(api.simulate_run(FAILING, sensitivities=False).days["mean"])
    assert sum(advice.shares.values()) == pytest.approx(1.0)


@pytest.mark.slow
def test_techniques_of_runs_alone_are_ranked_beside_those_of_steps(advice: Advice) -> None:
    found = listed(advice)
    assert {"c4", "elaswave", "universal-checkpointing", "tp-overlap"} <= found.keys()
    assert "reft" in {*advice.lost}  # its saves are cheaper, and as rare as before
    gains = [s.gain for s in advice.suggestions]
    assert gains == sorted(gains, reverse=True) and min(gains) > 0


@pytest.mark.slow
def test_each_line_says_days_dollars_energy_what_moves_and_what_it_costs(advice: Advice) -> None:
    one = listed(advice)["elaswave"]
    figures = {name: (before, after) for name, before, after in one.also}
    assert {*FIGURES, "host_bytes"} == figures.keys()
    assert figures["days"][1] == one.value < figures["days"][0] == advice.value
    assert figures["run_cost"][1] < figures["run_cost"][0] and figures["host_bytes"][1] > 0
    assert one.moved[0][0] == "wait for nodes" and "host memory" in one.costs
    assert one.costs == costs_of(REGISTRY.get("elaswave"))


@pytest.mark.slow
def test_the_gain_is_that_of_the_same_runs_by_hand(advice: Advice) -> None:
    one = listed(advice)["c4"]
    after = api.simulate_run(merged(FAILING, one.scenario), sensitivities=False)
    assert one.value == pytest.approx(after.days["mean"], rel=0.01)
    assert one.low <= one.gain <= one.high and one.told_apart


def test_runs_are_paired_and_go_on_while_nothing_is_resolved() -> None:
    bench = RunBench.of(prepared_run(FAILING))
    far = bench.run(merged(FAILING, {"run": {"failures": "none"}}))
    same = bench.run(FAILING)
    near = bench.run(merged(FAILING, {"run": {"recovery": {"compile_s": 30.5}}}))
    assert len(far.samples) == len(same.samples) == FIRST
    assert np.array_equal(same.samples, bench.base.samples[:FIRST]) and same.days == bench.base.days
    assert len(near.samples) >= FIRST
    paired = near.samples[:, 0] - bench.base.samples[: len(near.samples), 0]
    assert paired.std() < bench.base.samples[:, 0].std()


@pytest.mark.slow
def test_what_is_not_resolved_says_so(advice: Advice) -> None:
    from windtunnel.views.advise import notes

    one = listed(advice)["c4"]
    assert not any("not resolved" in line for line in notes(advice, one))
    assert any("not resolved" in line for line in notes(advice, replace(one, told_apart=False)))


def test_a_step_may_still_be_asked_for_and_runs_need_their_section() -> None:
    assert advise(FAILING, objective="time", pairs=False).objective.figure == "step_time_s"
    bare = {k: v for k, v in FAILING.items() if k != "run"}
    with pytest.raises(BadInput, match=r"objective = days: must be one of time.*it needs a `run` section"):
        advise(bare, objective="days")
    without = merged(FAILING, {"run": {"grid": None}})
    with pytest.raises(BadInput, match=r"objective = carbon_kg.*run\.grid is not stated"):
        advise(without, objective="carbon_kg")


@pytest.mark.slow
def test_the_verb_writes_the_best_and_its_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, best, report = tmp_path / "s.yaml", tmp_path / "best.yaml", tmp_path / "advice.html"
    source.write_text(json.dumps(FAILING), "utf-8")
    said = [
        "advise",
        str(source),
        "--no-pairs",
        "--write",
        str(best),
        "--report",
        str(report),
        "--objective",
        "run_cost",
    ]
    assert run(said) == 0
    out = capsys.readouterr().out
    assert "dollars of the run" in out and "costs:" in out
    after = api.simulate_run(best, sensitivities=False)
    before = api.simulate_run(source, sensitivities=False)
    assert after.cost is not None and before.cost is not None and after.cost < before.cost
    assert "two by two" in report.read_text("utf-8")
