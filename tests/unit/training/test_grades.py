"""Every figure of a result has a grade, and no figure is firmer than what it was made from."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from windtunnel.api import prepare, simulate_training
from windtunnel.cost.provenance import GRADES
from windtunnel.training.results.grades import figure_grades, grade_line
from windtunnel.training.results.records import Interval
from windtunnel.training.results.training_result import TrainingResult

SCENARIO: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
    "training": {"framework": "nemo", "seq_len": 2048, "global_batch": 8},
    "plan": {"tp": 8, "mbs": 1},
}


@pytest.fixture(scope="module")
def result() -> TrainingResult:
    return simulate_training(SCENARIO, sensitivities=False)


def test_every_number_of_a_result_has_a_grade(result: TrainingResult) -> None:
    counted = {"num_devices", "num_micro_batches", "simulated_in_s"}  # given, counted from the plan, our own clock
    numbers = {f.name for f in fields(result) if isinstance(getattr(result, f.name), (int, float))} - counted
    assert numbers | {"breakdown", "sensitivities", "traffic"} <= set(result.grades)
    assert set(result.grades.values()) <= set(GRADES)
    assert result.to_dict()["grades"] == result.grades
    assert "time fitted" in grade_line(result.grades)


def test_power_and_cost_are_no_firmer_than_the_time(result: TrainingResult) -> None:
    cluster = prepare(SCENARIO)[0].cluster
    band = Interval(0.8, 1.0, 2.0, "", "assumed")
    weak = figure_grades(band, result.memory, cluster)
    assert weak["step_time_s"] == weak["mean_power_w"] == weak["cost_per_million_tokens"] == "assumed"
    assert weak["model_flop_per_token"] == "analytic"


def test_a_given_price_is_firmer_than_a_list_price(result: TrainingResult) -> None:
    cluster = prepare(SCENARIO)[0].cluster
    band = replace(result.interval, grade="fitted")
    listed = figure_grades(band, result.memory, cluster.model_copy(update={"price_per_device_hour": None}))
    given = figure_grades(band, result.memory, cluster.model_copy(update={"price_per_device_hour": 2.0}))
    assert (listed["cost_per_million_tokens"], given["cost_per_million_tokens"]) == ("assumed", "fitted")
