"""`programs.plans: planner`: the serving planner asked for each strategy's calls, programs run on its answers."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel import api
from windtunnel.errors import BadInput
from windtunnel.planner.plans_of_programs import traffic_of
from windtunnel.programs.simulate import simulate_programs
from windtunnel.specs.programs import ProgramsSpec

SCENARIO: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 4},
    "programs": {
        "strategies": [{"best_of_n": {"n": [1, 8], "selector": "checker"}}],
        "plans": "planner",
        "problems": 40,
        "concurrency": 8,
        "output_tokens": 300,
    },
    "population": {"pass_1": 0.4},
}


def test_every_strategy_runs_on_the_plans_that_the_planner_found() -> None:
    result = api.simulate_programs(SCENARIO)
    told = {field: value for field, value, _ in result.assumed if field.startswith("programs.plans of")}
    assert len(told) == 2
    plans = {p.method.rpartition(", ")[2] for p in result.points}
    assert plans == set(told.values())
    assert len(result.points) == 2 * len(plans)
    every = simulate_programs({**SCENARIO, "programs": {**SCENARIO["programs"], "plans": "auto"}})
    for n in (1, 8):
        best = min(p.cost_usd or 1e9 for p in every.points if p.n == n)
        found = min(p.cost_usd or 1e9 for p in result.points if p.n == n)
        assert found <= best * 1.1


def test_calls_in_flight_follow_from_the_run() -> None:
    fields = {**SCENARIO, "programs": {**SCENARIO["programs"], "plans": []}}
    one = simulate_programs(fields).points[0]
    traffic, words = traffic_of(one, ProgramsSpec.model_validate(fields["programs"]))
    assert traffic["concurrency"] == pytest.approx(8, abs=2)  # eight problems of one call, fewer at the end
    assert traffic["input_tokens"] == round(one.prompt_tokens) and "calls in flight" in words


def test_a_sweep_asks_no_planner() -> None:
    with pytest.raises(BadInput, match="is read by `reason` alone"):
        simulate_programs(SCENARIO)
