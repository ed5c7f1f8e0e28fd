"""`explain --against` names the difference that was injected: a step is simulated with it, and explained without it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest

from windtunnel import api
from windtunnel.errors import BadInput
from windtunnel.training.explain.likely_causes import DOUBTFUL, Cause, likely_causes, subject_of
from windtunnel.training.explanation import Explanation, read_against

_OPEN: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 4, "devices_per_node": 8},
    "training": {"seq_len": 8192, "global_batch": 64, "framework": "nemo"},
    "plan": {"tp": 4, "zero": 1, "mbs": 1},
}


def _with(**sections: Mapping[str, Any]) -> dict[str, Any]:
    out = copy.deepcopy(_OPEN)
    for name, own in sections.items():
        out[name].update(own)
    return out


def _explained(run: dict[str, Any], written: dict[str, Any]) -> Explanation:
    measured = api.simulate_training(run, sensitivities=False).step_time_s
    return api.explain(written, against=measured)


def _named(found: Explanation) -> Cause:
    return next(c for c in found.causes if c.name)


@pytest.mark.parametrize(
    ("injected", "field"),
    [
        ({"plan": {"recompute": "full"}}, "plan.recompute"),
        ({"training": {"precision": "fp8"}}, "training.precision"),
        ({"training": {"attention": "unfused"}}, "training.attention"),
    ],
)
def test_an_injected_cause_is_named_first(injected: dict[str, Any], field: str) -> None:
    found = _explained(_with(**injected), _OPEN)
    first = _named(found)
    assert first.name == field, [(c.sentence, c.probability) for c in found.causes]
    assert sum(c.probability for c in found.causes) <= 1.0 + 1e-9
    assert list(found.causes) == sorted(found.causes, key=lambda c: -c.probability)


def test_a_slow_network_is_named_where_traffic_is_a_part_of_the_step() -> None:
    short = {"training": {"seq_len": 1024, "global_batch": 64}, "plan": {"zero": 3, "tp": 1}}
    run = _with(**{**short, "cluster": {"scale_out": "1 x infiniband-ndr"}})
    assert _named(_explained(run, _with(**short))).name == "cluster.scale_out"


def test_overlap_that_the_release_does_not_have_is_named() -> None:
    whole: dict[str, Any] = {
        "model": "meta-llama/Llama-3.1-70B",
        "plan": {"tp": 4, "pp": 4, "vpp": 5, "zero": 1, "mbs": 1},
    }
    run = {**_OPEN, **whole, "plan": {**whole["plan"], "overlap": False}}
    assert _named(_explained(run, {**_OPEN, **whole})).subject == "overlap"


def test_a_cause_that_the_scenario_rules_out_weighs_less_than_one_that_it_leaves_open() -> None:
    run = _with(plan={"recompute": "full"})
    left_open = next(c for c in _explained(run, _OPEN).causes if c.name == "plan.recompute")
    stated = next(c for c in _explained(run, _with(plan={"recompute": "none"})).causes if c.name == "plan.recompute")
    assert stated.probability < left_open.probability and stated.probability > 0.5 * DOUBTFUL * left_open.probability
    assert "as stated" in stated.sentence and "as assumed" in left_open.sentence


def test_a_prediction_that_agrees_blames_nothing() -> None:
    found = _explained(_OPEN, _OPEN)
    assert abs(found.causes[0].residual) < 1e-9
    assert found.causes[0].subject == "the model's own error"


def test_a_step_that_no_alternative_comes_near_blames_what_is_not_simulated() -> None:
    found = api.explain(_OPEN, against=9.0 * api.simulate_training(_OPEN, sensitivities=False).step_time_s)
    assert found.causes[0].subject == "something that is not simulated"


def test_fields_and_coefficients_about_one_thing_are_one_subject() -> None:
    assert subject_of("plan.overlap.tp") == subject_of("plan.overlap") == subject_of("gather_exposed")
    assert subject_of("host_kernel_s") == subject_of("training.cuda_graphs")
    assert subject_of("plan.recompute") != subject_of("plan.mbs") == "the mapping"
    assert subject_of("scale_out_scale") == subject_of("cluster.scale_out") != subject_of("scale_up_scale")


@pytest.mark.parametrize("measured_s", [1e-9, 1e-4, 1e4, 1e9])
def test_a_step_that_is_off_by_any_factor_has_causes_that_add_up(measured_s: float) -> None:
    causes = likely_causes([], [], 1.0, measured_s)
    assert sum(cause.probability for cause in causes) == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("seconds", ["1e-300", "5e-324", "1e308", "1e12"])
def test_a_time_that_no_step_takes_is_refused(seconds: str) -> None:
    with pytest.raises(BadInput, match="--against"):
        read_against(seconds)
    with pytest.raises(BadInput, match="--against"):
        read_against(float(seconds))
