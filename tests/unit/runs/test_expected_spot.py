"""Spot fleets in closed form: what the replications say on average, and what searches and plans do with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from windtunnel import api
from windtunnel.advice.run_bench import RunBench
from windtunnel.errors import BadInput
from windtunnel.planner.objectives import METRICS, Goals
from windtunnel.planner.plan_one_cluster import branch_of
from windtunnel.planner.plan_training import plan
from windtunnel.planner.question import question_of
from windtunnel.planner.search.branch_and_bound import Found, evaluate
from windtunnel.runs.expected import expected_run
from windtunnel.runs.prepare_run import drawn_fleets, with_spares
from windtunnel.runs.run_bill import loop_of
from windtunnel.runs.simulate import prepared_run
from windtunnel.runs.spot.expected import spot_mean
from windtunnel.scenarios.load import load_scenario

EXAMPLE = Path(__file__).parents[3] / "examples" / "run" / "spot-fleet.yaml"
RATES = "run.spot.rates"


@pytest.mark.parametrize(
    "settings",
    [
        (),
        (f"{RATES}.reclaims_per_1000_node_hours=100",),
        ("run.spot.notice_s=1", "run.recovery.regrow_after_s=0"),
        (f"{RATES}.zone_reclaims_per_day=12",),
        ("run.recovery.policy=restart", "run.recovery.spares=8"),
        (f"{RATES}.return_s=6 h",),
    ],
)
def test_the_closed_form_agrees_with_the_replications(settings: tuple[str, ...]) -> None:
    x = prepared_run(EXAMPLE, overrides=settings)
    mean = spot_mean(x.program, drawn_fleets(x))
    expected = expected_run(x.program, mean)
    found = loop_of(x, 0, 40)
    wall = np.array([r.wall_s for r in found])
    assert abs(expected.wall_s / wall.mean() - 1.0) <= 0.02 + 2 * wall.std() / wall.mean() / 40**0.5
    assert mean.in_job == pytest.approx(sum(r.job_node_s for r in found) / wall.sum(), rel=0.03)
    assert mean.held == pytest.approx(sum(r.held_node_s for r in found) / wall.sum(), rel=0.03)


def test_nodes_that_stay_cost_nothing() -> None:
    still = (f"{RATES}.reclaims_per_1000_node_hours=0", f"{RATES}.zone_reclaims_per_day=0")
    x = prepared_run(EXAMPLE, overrides=still)
    mean = spot_mean(x.program, drawn_fleets(x))
    assert mean.stretch == pytest.approx(1.0) and mean.in_job == mean.held == pytest.approx(32)


def test_spares_of_a_spot_fleet_are_asked_for() -> None:
    x = prepared_run(EXAMPLE)
    more = with_spares(x, 8)
    held = [spot_mean(one.program, drawn_fleets(one)).held for one in (x, more)]
    assert held[1] > held[0] + 6


@pytest.mark.slow
def test_a_spot_run_is_searched() -> None:
    found = api.search_run(EXAMPLE, overrides=("run.replications=16",))
    assert found.complete and found.written is not None and found.best.days <= found.written.days
    assert {c.spares for c in found.curves["spares"]} >= {0, 4}
    assert found.best.expected_days == pytest.approx(found.best.days, rel=0.05)


BASE: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 4, "devices_per_node": 8},
    "training": {"seq_len": 8192, "global_batch": 128, "framework": "megatron_core"},
    "search": {
        "objective": ["days", "run_cost", "carbon_kg"],
        "space": {"tp": [1, 2, 4], "pp": [1, 2], "vpp": [1], "mbs": [1], "recompute": ["none"], "cp": [1]},
    },
}
SPOT = {"rates": {"reclaims_per_1000_node_hours": 40}, "price_per_device_hour": 1.0}


@pytest.mark.parametrize(
    "more",
    [
        {"spot": SPOT, "recovery": {"policy": "shrink", "least_replicas": 0.25}},
        {"spot": SPOT, "recovery": {"policy": "reshape", "least_replicas": 0.25}},
        {"stragglers": {"spread": 0.3, "wait": "fastest"}},
        {"stragglers": {"law": "pareto", "spread": 0.4}},
    ],
)
def test_no_bound_of_a_plan_is_above_its_value(more: dict[str, Any]) -> None:
    run = {"tokens": "100B", "failures": "opt-175b-2022", "grid": "germany", **more}
    wanted = load_scenario({**BASE, "run": run})
    question = question_of(wanted)
    goals = Goals.of(question.wanted)
    branch = branch_of(question.variants[0], question.wanted, goals)
    legal = branch.candidates.legal.reshape(-1).nonzero()[0].tolist()
    every = [e for cell in legal if (e := evaluate([branch], goals, Found(), 0, cell)) is not None]
    assert len(every) > 2
    width, compared = branch.candidates.legal.shape[1], 0
    for e in every:
        floor = branch.lower_bounds(np.array([e.layout * width + e.policy]))
        if floor.time_s[0] == float("inf"):
            continue
        compared += 1
        for name in ("days", "run_cost", "carbon_kg"):
            assert float(METRICS[name].bound(branch.setting, floor)[0]) <= e.values[name]
    assert compared


def test_plans_of_spot_runs_are_those_that_shrink_well() -> None:
    """Every replica that goes with a node takes a pipeline of others with it: under reclaims that costs days."""
    run = {"tokens": "100B", "failures": "none", "spot": SPOT, "recovery": {"policy": "shrink", "least_replicas": 0.25}}
    found = plan({**BASE, "run": run, "search": {**BASE["search"], "objective": "days"}})
    best = found.frontier[0].whole_run
    assert best["days"] > best["ideal_days"] and found.finalists
    assert found.finalists[0].replicated == pytest.approx(found.finalists[0].expected, rel=0.05)


def test_a_rule_that_nobody_knows_is_told_once() -> None:
    run = {"tokens": "100B", "stragglers": {"wait": "slowest"}, "failures": "nowhere"}
    with pytest.raises(BadInput) as caught:
        plan({**BASE, "run": run})
    told = [p.field for p in caught.value.problems]
    assert sorted(told) == ["run.failures", "run.grid", "run.stragglers.wait"]


def test_a_trace_is_read_beside_its_scenario(tmp_path: Path) -> None:
    """By plans, by their finalists and by advice, wherever the command is given."""
    import yaml

    rows = ["time_ms,event,node", "0,add,a", "0,add,b", "0,add,c", "0,add,d", "7200000,remove,a", "14400000,add,a"]
    (tmp_path / "nodes.csv").write_text("\n".join([*rows, "86400000,remove,d", "90000000,add,d"]), "utf-8")
    spot = {"trace": "nodes.csv", "draw": "replay"}
    run = {"tokens": "20B", "failures": "none", "spot": spot, "recovery": {"policy": "shrink", "least_replicas": 0.25}}
    scenario = {**BASE, "run": {**run, "replications": 4}, "search": {**BASE["search"], "objective": "days"}}
    source = tmp_path / "spot.yaml"
    source.write_text(yaml.safe_dump(scenario), "utf-8")
    assert plan(source).finalists
    assert api.simulate_run(source, sensitivities=False).spot is not None
    bench = RunBench.of(prepared_run(source))
    assert bench.run(bench.scenario).days == bench.base.days
