"""Plans ranked by days, money and carbon of their whole runs: nothing is better than what is found, bounds hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from windtunnel.errors import BadInput, Infeasible
from windtunnel.planner.objectives import METRICS, Goals, LowerBounds
from windtunnel.planner.plan_one_cluster import branch_of
from windtunnel.planner.plan_training import plan
from windtunnel.planner.question import question_of
from windtunnel.planner.search.branch_and_bound import Found, evaluate
from windtunnel.scenarios.load import load_scenario

BASE: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 4, "devices_per_node": 8},
    "training": {"seq_len": 8192, "global_batch": 128, "framework": "megatron_core"},
    "run": {"tokens": "100B", "failures": "opt-175b-2022", "recovery": {"spares": 1}, "grid": "germany"},
    "search": {
        "objective": "days",
        "space": {"tp": [1, 2, 4], "pp": [1, 2], "vpp": [1], "mbs": [1], "recompute": ["none"], "cp": [1]},
    },
}


def asked(**search: Any) -> dict[str, Any]:
    return {**BASE, "search": {**BASE["search"], **search}}


def test_the_best_is_the_best_of_all_and_no_bound_is_above_its_value() -> None:
    wanted = load_scenario(asked(objective=["days", "run_cost", "carbon_kg"]))
    question = question_of(wanted)
    goals = Goals.of(question.wanted)
    branch = branch_of(question.variants[0], question.wanted, goals)
    legal = branch.candidates.legal.reshape(-1).nonzero()[0].tolist()
    every = [e for cell in legal if (e := evaluate([branch], goals, Found(), 0, cell)) is not None]
    fitting = [e for e in every if e.feasible]
    assert len(fitting) > 2
    width = branch.candidates.legal.shape[1]
    for e in every:
        at = e.layout * width + e.policy
        floor: LowerBounds = branch.lower_bounds(np.array([at]))
        if floor.time_s[0] == float("inf"):  # does not fit, or costs nothing to know
            continue
        for name in ("days", "run_cost", "carbon_kg"):
            assert float(METRICS[name].bound(branch.setting, floor)[0]) <= e.values[name]
        assert e.whole_run is not None and e.whole_run.ideal_days < e.whole_run.days
    for name in ("days", "run_cost", "carbon_kg"):
        found = plan(asked(objective=name))
        assert found.proof.complete
        assert found.proof.best == pytest.approx(min(e.values[name] for e in fitting), rel=1e-9)
        assert found.finalists and found.frontier[0].whole_run["checkpoint_bytes"] > 1e9


def test_spares_are_chosen_and_written() -> None:
    space = {**BASE["search"]["space"], "spares": [0, 1, 2, 4]}
    most, cheap = plan(asked(space=space)), plan(asked(space=space, objective="run_cost"))
    assert most.scenario["run"]["recovery"]["spares"] == 4  # of days alone more is never worse
    assert cheap.scenario["run"]["recovery"]["spares"] < 4
    assert cheap.frontier[0].values["run_cost"] < most.frontier[0].whole_run["run_cost"]
    assert {one.cluster["spares"] for one in most.finalists} == {4}


def test_a_limit_on_days_is_kept() -> None:
    free = plan(asked(objective="run_cost"))
    days = free.frontier[0].whole_run["days"]
    kept = plan(asked(objective="run_cost", limits={"days": days * 1.01}))
    assert kept.frontier[0].values["days"] <= days * 1.01
    with pytest.raises(Infeasible, match="days"):
        plan(asked(objective="run_cost", limits={"days": days * 0.5}))


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"run": None}, "search.tokens"),
        ({"run": {"tokens": "1T", "failures": "none"}, "search": {"objective": "carbon_kg"}}, "run.grid"),
        ({"run": {"tokens": "1T", "recovery": {"spares": 9}}}, "run.recovery.spares"),
        ({"search": {"objective": "days", "space": {"spares": [0, 9]}}}, "search.space.spares"),
        ({"search": {"objective": "step_time", "space": {"spares": [0, 1]}}}, "search.space.spares"),
        ({"search": {"objective": "days", "tokens": "2T"}}, "search.tokens"),
        ({"run": {"tokens": "1T", "failures": "nowhere"}}, "run.failures"),
    ],
)
def test_bad_questions_get_a_line(change: dict[str, Any], rule: str) -> None:
    with pytest.raises(BadInput, match=rule) as caught:
        plan({name: value for name, value in {**BASE, **change}.items() if value is not None})
    assert all("\n" not in str(p) for p in caught.value.problems)


def test_tokens_of_the_search_alone_are_a_run_of_defaults() -> None:
    scenario = {name: value for name, value in BASE.items() if name != "run"}
    found = plan({**scenario, "search": {**BASE["search"], "tokens": "100B"}})
    assert found.scenario["run"] == {"tokens": 100e9}
