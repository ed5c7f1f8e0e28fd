"""DualPipe in a step: what pairs hide, what two copies cost."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel import api
from windtunnel.errors import BadInput

MIXTURE: dict[str, Any] = {
    "model": "mistralai/Mixtral-8x7B-v0.1",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 4, "devices_per_node": 8},
    "training": {"seq_len": 4096, "global_batch": 96, "framework": "megatron_core"},
    "plan": {"pp": 4, "vpp": 2, "ep": 8, "mbs": 1, "schedule": "dualpipev", "overlap": {"moe_a2a": False}},
}


def step(schedule: str, *, free: bool = False, **plan: Any) -> Any:
    scenario = MIXTURE | {"plan": MIXTURE["plan"] | {"schedule": schedule} | plan}
    if free:
        fast = {"id": "free", "family": "generic", "bytes_per_s": 1e16, "latency_s": 0.0}
        scenario["cluster"] = MIXTURE["cluster"] | {"scale_up": fast}
    return api.simulate_training(scenario, sensitivities=False)


def test_pairs_hide_exchanges_but_no_products() -> None:
    plain, paired = step("zb_v"), step("dualpipev")
    assert plain.breakdown["exposed ep"] > 0.02 * plain.step_time_s
    assert paired.breakdown["exposed ep"] < 0.7 * plain.breakdown["exposed ep"]
    assert paired.breakdown["gemm"] == pytest.approx(plain.breakdown["gemm"], rel=1e-6)
    assert sum(paired.breakdown.values()) == pytest.approx(paired.step_time_s)
    assert paired.hardware_tflops_per_device * paired.step_time_s == pytest.approx(
        plain.hardware_tflops_per_device * plain.step_time_s
    )


def test_with_free_exchanges_pairs_gain_nothing() -> None:
    """Then only the order is left, whose bubble is larger than ZB-V's."""
    assert step("dualpipev", free=True).step_time_s > step("zb_v", free=True).step_time_s


def test_two_copies_hold_every_parameter_twice() -> None:
    one, two = step("1f1b", vpp=1), step("dualpipe")
    weights = [sum(s["parameters"] for s in run.stages) for run in (one, two)]
    assert weights[1] == pytest.approx(2 * weights[0])
    assert two.hardware_tflops_per_device * two.step_time_s == pytest.approx(
        one.hardware_tflops_per_device * one.step_time_s
    )
    assert two.peak_memory_allocated_bytes > one.peak_memory_allocated_bytes


def test_what_two_copies_cannot_do_is_said() -> None:
    with pytest.raises(BadInput, match="even number"):
        api.simulate_training(
            MIXTURE
            | {"plan": MIXTURE["plan"] | {"schedule": "dualpipe"}}
            | {"training": MIXTURE["training"] | {"global_batch": 72}}
        )


def test_exchanges_of_both_passes_share_the_links() -> None:
    """A pair takes at least what its kernels take, and at least what its exchanges take on the link that they load."""
    prepared = api.prepare(MIXTURE | {"cluster": {"device": "h100-sxm-80gb", "nodes": 8, "devices_per_node": 4}})[0]
    parts = prepared.stages
    for pair in prepared.program.pairs:
        assert pair.seconds <= pair.alone_s * 1.001
    for k in range(len(parts.layers)):
        exchanged = kernels = 0.0
        for segments, number in parts.uses[k]:
            for x in (launch for s in segments for launch in parts.segments[s].launches):
                exchanged += number * x.alone_s * (x.stream != "compute" and x.out_bytes > 0)
                kernels += number * x.alone_s * (x.stream == "compute")
        pair = prepared.program.pairs[0]
        assert pair.seconds >= max(kernels, exchanged) * (1 - 1e-9) or k


@pytest.mark.parametrize("schedule", ["dualpipe", "dualpipev"])
def test_hops_that_block_follow_the_unit_whose_results_they_carry(schedule: str) -> None:
    beside, blocking = (step(schedule, overlap={"moe_a2a": False, "p2p": p2p}).step_time_s for p2p in (True, False))
    assert beside < blocking < 1.2 * beside
