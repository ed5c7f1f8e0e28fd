"""Terms of assumed settings: what is left open widens the band by what its alternatives do, what is stated does not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from windtunnel.specs.scenario import Scenario
from windtunnel.training.predict import prepare, simulate_training
from windtunnel.training.results.read_result import result_from_dict
from windtunnel.training.results.records import Interval
from windtunnel.training.results.training_result import TrainingResult
from windtunnel.training.uncertainty.band_terms import BandTerm, term_of, with_terms
from windtunnel.training.uncertainty.measure_next import measure_next

_STATED: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 2, "devices_per_node": 8, "scale_out": "8 x infiniband-ndr"},
    "training": {"seq_len": 4096, "global_batch": 64, "precision": "bf16", "framework": "nemo"},
    "plan": {"tp": 2, "zero": 1, "mbs": 1, "recompute": "none"},
}


def _changed(**sections: Mapping[str, Any]) -> dict[str, Any]:
    """The stated scenario with keys of sections replaced; None takes a key out."""
    out = {}
    for name, own in _STATED.items():
        merged = {**own, **sections.get(name, {})} if isinstance(own, dict) else own
        out[name] = {k: v for k, v in merged.items() if v is not None} if isinstance(merged, dict) else merged
    return out


def _ran(scenario: dict[str, Any], **options: Any) -> TrainingResult:
    return simulate_training(scenario, sensitivities=False, **options)


def _ends(result: TrainingResult) -> tuple[float, float]:
    band = result.interval
    return math.log(result.step_time_s / band.low), math.log(band.high / result.step_time_s)


STATED = _ran(_STATED)


def test_a_scenario_that_states_everything_has_no_term_and_simulates_nothing_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from windtunnel.training.explain import assumed_fields

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("an alternative was simulated")

    monkeypatch.setattr(assumed_fields, "prepared_with", never)
    assert "was assumed" not in _ran(_STATED).interval.basis


def test_recomputation_that_is_not_stated_widens_the_slow_end_by_what_the_next_policy_costs() -> None:
    result = _ran(_changed(plan={"recompute": None}))
    heavier = _ran(_changed(plan={"recompute": "selective"}))
    (low, high), (low_stated, high_stated) = _ends(result), _ends(STATED)
    added = math.log(heavier.step_time_s / STATED.step_time_s)
    assert result.step_time_s == STATED.step_time_s
    assert added > 0.001 and low == pytest.approx(low_stated)
    assert high_stated < high <= math.hypot(high_stated, added) + 1e-12
    share = f"{math.expm1(added):.1%}".replace("%", " %")
    assert f"recomputation was assumed: selective instead of none adds {share}" in result.interval.basis


def test_a_precision_that_is_not_stated_widens_the_fast_end_only_where_the_device_has_the_units() -> None:
    result = _ran(_changed(training={"precision": None}))
    assert _ends(result)[0] > _ends(STATED)[0] and "the precision was assumed: fp8 instead of bf16" in (
        result.interval.basis
    )
    without_units = _ran(_changed(training={"precision": None}, cluster={"device": "a100-sxm-80gb"}))
    never_trained = _ran(_changed(training={"precision": None, "framework": "megatron_2021"}))
    for one in (without_units, never_trained):
        assert "precision was assumed" not in one.interval.basis


def test_every_format_that_a_row_names_lies_inside_the_interval() -> None:
    from windtunnel.training.predict import prepare
    from windtunnel.training.simulate_step import simulate_step
    from windtunnel.validation.predict.assumed_terms import terms_of_row

    prepared, scenario = prepare(_STATED)
    result = simulate_step(prepared)
    narrow = _ran(_changed(training={"precision": "fp8"})).step_time_s
    left_open = {"precision", "precision=fp8"}
    (term,) = terms_of_row(prepared, scenario, result.step_time_s, left_open, memory_fits=True)
    assert term.low_log == pytest.approx(math.log(narrow / result.step_time_s))
    one = Interval(0.8, result.step_time_s, result.step_time_s, "", "fitted")
    assert with_terms(one, result.step_time_s, [term]).low == pytest.approx(narrow)


def test_a_network_that_is_not_stated_counts_between_nodes_alone() -> None:
    several = _ran(_changed(cluster={"scale_out": None}))
    one = _ran(_changed(cluster={"scale_out": None, "nodes": 1}))
    assert "the network was assumed: 4 x 400 Gb/s instead of 8 x 400 Gb/s adds" in several.interval.basis
    assert _ends(several)[1] > _ends(STATED)[1]
    assert "network" not in one.interval.basis


def test_a_mapping_that_a_planner_chose_counts_as_assumed_and_is_listed() -> None:
    chosen = _ran(_STATED, chosen_by_planner=("plan",))
    axis = _ran(_STATED, chosen_by_planner=("plan.tp",))
    assert "the mapping was assumed" in chosen.interval.basis and "the mapping was assumed" in axis.interval.basis
    assert _ends(chosen)[1] > _ends(STATED)[1] and _ends(axis)[1] > _ends(STATED)[1]
    assert next(a for a in chosen.assumed if a.field == "plan").why == "left to the planner"
    assert {a.field for a in axis.assumed} >= {"plan.tp"} and not any(a.field == "plan" for a in axis.assumed)


def test_terms_add_in_quadrature_and_never_narrow() -> None:
    band = Interval(0.8, 9.0, 11.0, "rows", "fitted")
    wide = with_terms(band, 10.0, [BandTerm("a", 0.0, 0.3, "a text"), BandTerm("b", -0.2, 0.4, "b text")])
    assert math.log(wide.high / 10.0) == pytest.approx(math.hypot(math.log(1.1), 0.3, 0.4))
    assert math.log(10.0 / wide.low) == pytest.approx(math.hypot(math.log(10 / 9), 0.2))
    assert wide.basis == "rows; a text; b text" and with_terms(band, 10.0, []) is band


def test_one_of_many_alternatives_weighs_less_and_no_term_passes_the_farthest() -> None:
    alone, among = term_of("x", [0.3], ""), term_of("x", [0.3, 0.0, 0.0, 0.0], "")
    assert alone.high_log == pytest.approx(1.2816 * 0.3 / math.sqrt(2.0)) and among.high_log < alone.high_log
    assert alone.low_log == 0.0
    assert term_of("x", [0.3] * 40, "").high_log == pytest.approx(0.3)
    assert term_of("x", [-0.3], "").low_log == pytest.approx(-alone.high_log)


def test_a_wide_band_names_what_narrows_it_and_the_statement_gives_just_that_band() -> None:
    wide = _ran(_changed(training={"precision": None}))
    told = wide.measure_next
    assert told is not None and told.kind == "setting" and "training.precision" in told.command
    low, high = _ends(STATED)
    assert told.half_width_after == pytest.approx(0.5 * (low + high))
    assert told.half_width == pytest.approx(0.5 * sum(_ends(wide)))
    assert result_from_dict(wide.to_dict()).measure_next == told


def test_a_narrow_band_asks_for_nothing() -> None:
    prepared, _ = prepare(Scenario.model_validate(STATED.scenario))
    narrow = replace(STATED.interval, low=0.95 * STATED.step_time_s, high=1.05 * STATED.step_time_s)
    assert measure_next(prepared.members, STATED, narrow, ()) is None


def test_kernels_of_an_unknown_device_are_measured_on_it_and_the_promise_is_what_the_band_becomes() -> None:
    from windtunnel import catalog
    from windtunnel.specs.device import MeasuredValue, Profile

    here = {"nodes": 1, "devices_per_node": 1}
    work = {"framework": "megatron_deepspeed", "seq_len": 1024, "global_batch": 4}
    unknown = _changed(cluster={"device": "mi300x", **here}, training=work, plan={"tp": 1})
    told = _ran(unknown).measure_next
    assert told is not None and told.kind == "kernels" and told.command.startswith("windtunnel calibrate --on gpu")
    names = ("attention_fraction.flash2", "memory_fraction", "optimizer_fraction", "gemm_fraction.bf16")
    entries = {n: MeasuredValue(value=0.6, relative_error=0.03) for n in names}
    entries["host_kernel_s"] = MeasuredValue(value=1e-5, relative_error=0.03)
    spec = catalog.device("mi300x").model_copy(update={"profile": Profile(coefficients=entries)})
    device = spec.model_dump(mode="json", exclude_unset=True)
    measured = _ran(_changed(cluster={"device": device, **here}, training=work, plan={"tp": 1}))
    assert sum(_ends(measured)) / 2 == pytest.approx(told.half_width_after, rel=0.15)
