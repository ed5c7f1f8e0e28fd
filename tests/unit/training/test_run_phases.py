"""Runs whose steps differ: means of what phases were simulated to be, and what cannot be a phase."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from windtunnel import api
from windtunnel.errors import BadInput
from windtunnel.techniques.limits import merged
from windtunnel.training.results.read_result import result_from_dict
from windtunnel.views.train import view
from windtunnel.writers import html

CASE: dict[str, Any] = {
    "model": "gpt3-1.3b",
    "cluster": {"device": "a100-sxm-80gb", "nodes": 2, "devices_per_node": 8, "price_per_device_hour": 2.0},
    "training": {"seq_len": 2048, "global_batch": 64, "framework": "megatron_core"},
    "plan": {"tp": 1},
}
RAMP = {"name": "ramp", "share": 0.25, "set": {"training.global_batch": 16}}


def step(change: dict[str, Any] | None = None, *, sensitivities: bool = False, **how: Any) -> Any:
    return api.simulate_training(merged(CASE, change or {}), sensitivities=sensitivities, **how)


def run(*phases: dict[str, Any], **change: Any) -> dict[str, Any]:
    return merged({"training": {"run": list(phases)}}, change)


def test_a_run_is_the_mean_of_its_phases_each_as_a_scenario_of_its_own() -> None:
    whole, few, many = step(run(RAMP)), step({"training": {"global_batch": 16}}), step()
    seconds = 0.25 * few.step_time_s + 0.75 * many.step_time_s
    tokens = 2048 * (0.25 * 16 + 0.75 * 64)
    assert whole.step_time_s == pytest.approx(seconds, rel=1e-12)
    assert whole.tokens_per_s == pytest.approx(tokens / seconds, rel=1e-12)
    assert sum(whole.breakdown.values()) == pytest.approx(seconds, rel=1e-9)
    assert few.mfu < whole.mfu < many.mfu
    assert whole.model_tflops_per_device * 1e12 * 16 * seconds == pytest.approx(
        whole.model_flop_per_token * tokens, rel=1e-9
    )
    assert whole.cost_per_million_tokens == pytest.approx(2.0 * 16 / 3600 / whole.tokens_per_s * 1e6, rel=1e-9)
    assert whole.energy_per_token_j == pytest.approx(whole.mean_power_w * 16 / whole.tokens_per_s, rel=1e-9)
    assert whole.interval.low < seconds < whole.interval.high
    assert [(p["name"], p["share"]) for p in whole.run] == [("otherwise", 0.75), ("ramp", 0.25)]
    assert sum(p["share_of_time"] for p in whole.run) == pytest.approx(1.0)


def test_sensitivities_are_those_of_the_mean() -> None:
    faster = {"cluster": {"scale_out": {"nic_bytes_per_s": 1.1 * 25e9, "nics_per_node": 8}}}
    slow = {"cluster": {"scale_out": {"nic_bytes_per_s": 25e9, "nics_per_node": 8}}}
    base, more = step(run(RAMP, **slow), sensitivities=True), step(run(RAMP, **faster))
    gain = more.step_time_s / base.step_time_s - 1.0
    assert gain < 0
    assert base.sensitivities["scale-out bandwidth"] == pytest.approx(gain, rel=1e-6)


def test_memory_is_that_of_the_fullest_phase() -> None:
    long = {"name": "long", "every": 10, "set": {"training.seq_len": 8192, "plan.recompute": "none"}}
    whole, plain, own = step(run(long)), step(), step({"training": {"seq_len": 8192}})
    assert whole.memory.peak_reserved_bytes == own.memory.peak_reserved_bytes > plain.memory.peak_reserved_bytes
    assert whole.memory_fits == own.memory_fits
    assert [p["share"] for p in whole.run] == pytest.approx([0.9, 0.1])


def test_a_technique_may_be_off_for_a_while() -> None:
    slow = {"cluster": {"scale_out": {"nic_bytes_per_s": "10 Gb/s", "nics_per_node": 1}}, "plan": {"zero": 0}}
    off = {"name": "start", "share": 0.4, "without": ["powersgd"]}
    whole = step(run(off, techniques=["powersgd"], **slow))
    on, without = step(merged(slow, {"techniques": ["powersgd"]})), step(slow)
    assert whole.step_time_s == pytest.approx(0.6 * on.step_time_s + 0.4 * without.step_time_s, rel=1e-12)
    assert on.step_time_s < 0.9 * whole.step_time_s


def test_the_warm_up_of_one_bit_adam_is_plain_adam() -> None:
    slow = {"cluster": {"scale_out": {"nic_bytes_per_s": "10 Gb/s", "nics_per_node": 1}}, "plan": {"zero": 0}}
    adam = step(slow).step_time_s
    after = step(merged(slow, {"techniques": [{"one-bit-adam": {"warm_up": 0.0}}]}))
    whole = step(merged(slow, {"techniques": [{"one-bit-adam": {"warm_up": 0.2}}]}))
    assert not after.run
    assert whole.run[1]["step_time_s"] == adam
    assert whole.step_time_s == pytest.approx(0.2 * adam + 0.8 * after.step_time_s, rel=1e-12)
    apart = step(merged(slow, {"techniques": [{"one-bit-adam": {"warm_up": 0.2}}]}), run=False)
    assert apart.step_time_s == after.step_time_s


def test_without_phases_nothing_changes_and_results_keep_them(tmp_path: Path) -> None:
    plain, whole = step(), step(run(RAMP))
    assert plain.run == () and "run" not in plain.scenario["training"]
    again = result_from_dict(json.loads(json.dumps(whole.to_dict())))
    assert again.run == tuple(whole.to_dict()["run"])
    assert "Phases of the run" in html.render(view(whole)) and "Phases of the run" not in html.render(view(plain))


@pytest.mark.parametrize(
    ("phases", "words"),
    [
        ([RAMP | {"share": 0.6}, {"name": "b", "share": 0.4}], "must leave steps"),
        ([RAMP | {"every": 3}], "needs one of `share`"),
        ([{"name": "a"}], "needs one of `share`"),
        ([RAMP | {"name": "otherwise"}], "a name of its own"),
        ([RAMP, RAMP], "a name of its own"),
        ([RAMP | {"set": {"cluster.nodes": 1}}], "a field of training or plan"),
        ([RAMP | {"set": {"plan.mbss": 1}}], r"training\.run\.0\.set\.plan\.mbss = 1: unknown.*'mbs'"),
        ([RAMP | {"set": {"plan.tp": 3}}], "in phase ramp of the run"),
        ([RAMP | {"without": ["zb-h1"]}], "is no technique of this scenario"),
    ],
)
def test_what_cannot_be_a_phase_is_said(phases: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        step(run(*phases))


@pytest.mark.parametrize("verb", [api.explain, api.fit])
def test_verbs_for_one_kind_of_step_say_so(verb: Any) -> None:
    with pytest.raises(BadInput, match=r"training\.run"):
        verb(merged(CASE, run(RAMP)))
