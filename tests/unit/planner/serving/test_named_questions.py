"""Three questions of public deployments: a first plan at once, and the whole search within its time."""

from __future__ import annotations

from pathlib import Path

import pytest

from windtunnel import api
from windtunnel.planner.serving.plan_deployment import ServingPlan

FOLDER = Path(__file__).parents[4] / "benchmarks" / "serving_plans"
QUESTIONS = sorted(FOLDER.glob("*.yaml"))


def planned(file: Path, limit_s: float | None) -> ServingPlan:
    result = api.plan(str(file), time_limit_s=limit_s)
    assert isinstance(result, ServingPlan)
    return result


@pytest.mark.parametrize("file", QUESTIONS, ids=lambda file: file.stem)
def test_a_first_plan_starts_fits_and_keeps_the_objective(file: Path) -> None:
    plan = planned(file, 0.0)
    assert plan.stopped == "time" and plan.proof.simulated < 40
    again = api.simulate_serving(plan.scenario)  # refuses what the engine does not start with
    assert again.slo_met and not again.saturated


@pytest.mark.slow
@pytest.mark.parametrize("file", QUESTIONS, ids=lambda file: file.stem)
def test_the_whole_search_ends_with_a_proof_that_no_plan_in_time_comes_near(file: Path) -> None:
    whole, hurried = planned(file, None), planned(file, 0.0)
    assert whole.proof.complete and whole.to_dict()["gap"] == 0.0
    assert whole.best.values["goodput"] >= hurried.best.values["goodput"]
    assert whole.result.slo_met and not whole.result.saturated
