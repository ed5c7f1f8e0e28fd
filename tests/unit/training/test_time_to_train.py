"""Minutes until a target: from one number of steps or several, through a scenario, and of MLPerf's rows."""

from __future__ import annotations

import math
from typing import Any

import pytest

from windtunnel import api, catalog
from windtunnel.errors import BadInput
from windtunnel.training.results.read_result import result_from_dict
from windtunnel.training.results.records import Interval
from windtunnel.training.results.time_to_train import time_to_train
from windtunnel.validation.rows.targets import Work, training_targets

STEP = Interval(0.8, 0.9, 1.2, "", "fitted")


def scenario(**training: Any) -> dict[str, Any]:
    return {
        "model": "meta-llama/Llama-3.1-8B",
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
        "training": {"framework": "nemo", "seq_len": 2048, "global_batch": 8, **training},
        "plan": {"tp": 8, "mbs": 1},
    }


def test_one_number_of_steps_has_the_interval_of_the_step() -> None:
    found = time_to_train([600], 1.0, STEP)
    assert found is not None and found.minutes == 10.0
    assert found.low == pytest.approx(9.0) and found.high == pytest.approx(12.0)
    assert "not known" in found.basis


def test_samples_that_differ_widen_it_and_their_median_counts() -> None:
    alike, apart = time_to_train([600] * 5, 1.0, STEP), time_to_train([500, 580, 600, 650, 720], 1.0, STEP)
    assert alike is not None and apart is not None
    assert alike.steps == apart.steps == 600 and alike.low == pytest.approx(9.0)
    assert apart.low < alike.low and apart.high > alike.high


def test_the_spread_of_steps_is_a_prediction_interval() -> None:
    """Student's t with one degree of freedom holds 80 % within 3.0777; two draws have s = d / √2."""
    found = time_to_train([100, 110], 1.0, Interval(0.8, 1.0, 1.0, "", "fitted"))
    assert found is not None and found.basis.startswith("2 runs")
    half = 3.0777 * math.log(1.1) / math.sqrt(2.0) * math.sqrt(1.5)
    assert math.log(found.high / found.minutes) == pytest.approx(half, rel=1e-3)


def test_a_scenario_states_steps_and_its_result_comes_back_from_json() -> None:
    found = api.simulate_training(scenario(steps_to_converge=[900, 1000, 1100]), sensitivities=False)
    assert found.time_to_train is not None
    assert found.time_to_train.minutes == pytest.approx(1000 * found.step_time_s / 60)
    data = found.to_dict()
    assert data["time_to_train"]["steps"] == 1000.0
    assert result_from_dict(data).time_to_train == found.time_to_train
    assert "time_to_train" not in api.simulate_training(scenario(), sensitivities=False).to_dict()


def test_one_number_is_a_sample() -> None:
    found = api.simulate_training(scenario(steps_to_converge=1000), sensitivities=False).time_to_train
    assert found is not None and found.steps == 1000.0


@pytest.mark.parametrize("value", [0, -3, [100, 0], "many"])
def test_steps_are_positive_whole_numbers(value: Any) -> None:
    with pytest.raises(BadInput, match="steps_to_converge"):
        api.simulate_training(scenario(steps_to_converge=value), sensitivities=False)


def test_minutes_of_a_row_follow_from_its_samples() -> None:
    found = api.simulate_training(scenario(), sensitivities=False)
    work = Work(8 * 2048.0, 8.0, 8, 2048, catalog.model("meta-llama/Llama-3.1-8B"))
    row = {"metric": "time_to_train_min", "unit": "min", "value": 10.0, "extra": {"samples_to_target": 8000}}
    (target,) = training_targets(row, work)
    assert target.convert(found) == pytest.approx(1000 * found.step_time_s / 60)
    (target,) = training_targets(row | {"extra": {"steps_to_converge": 500}}, work)
    assert target.convert(found) == pytest.approx(500 * found.step_time_s / 60)
