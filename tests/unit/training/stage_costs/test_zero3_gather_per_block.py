"""ZeRO-3 in a pipeline: gathers once a block of micro-batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from windtunnel import api
from windtunnel.errors import BadInput

CASE: dict[str, Any] = {
    "model": "gpt3-6.7b",
    "cluster": {"device": "a100-sxm-80gb", "nodes": 4, "devices_per_node": 8},
    "training": {"seq_len": 2048, "global_batch": 112, "framework": "torchtitan"},
    "plan": {"pp": 4, "vpp": 4, "zero": 3, "mbs": 1, "schedule": "zeropp", "reshard_after_forward": True},
}


def step(global_batch: int = 112, **plan: Any) -> Any:
    training = CASE["training"] | {"global_batch": global_batch}
    case = CASE | {"plan": CASE["plan"] | plan, "training": training}
    return api.simulate_training(case, sensitivities=False, trace=True)


def gathers(run: Any) -> int:
    trace = run.trace
    return int((np.array([trace.tags[t] for t in trace.tag]) == "dp gather").sum())


def test_a_block_gathers_and_reduces_once() -> None:
    """14 micro-batches in two units of seven: seven times fewer gathers, and copies, than one a micro-batch."""
    each, block = step(), step(gather_per_block=True)
    assert each.num_micro_batches == 14
    # the turn of each unit finds its parameters; without blocks the turn of each micro-batch of the last chunk does
    assert gathers(each) > 6 * gathers(block) > 0
    assert block.step_time_s < each.step_time_s
    assert block.peak_memory_allocated_bytes > each.peak_memory_allocated_bytes
    assert block.hardware_tflops_per_device * block.step_time_s == pytest.approx(
        each.hardware_tflops_per_device * each.step_time_s
    )


def test_where_it_cannot_be_it_is_said() -> None:
    with pytest.raises(BadInput, match="needs zero 3"):
        step(gather_per_block=True, zero=1)
    with pytest.raises(BadInput, match="given up again"):
        step(gather_per_block=True, reshard_after_forward=False)


def test_plans_with_shared_gathers_are_searched() -> None:
    space = {"pp": [4], "zero": [3], "mbs": [1], "tp": [1], "cp": [1], "vpp": [2, 4]}
    plan = {"gather_per_block": True, "reshard_after_forward": True, "schedule": "breadth_first"}
    found = api.plan(CASE | {"plan": plan, "search": {"space": space}})
    assert found.proof.complete and found.best.plan["gather_block"] > 1


def test_layer_after_layer_gathers_once_a_step_without_a_pipeline() -> None:
    """Accumulation by layers: as many gathers as layers, once each way, whatever the number of micro-batches."""
    alone = {"pp": 1, "mbs": 1, "global_batch": 96}
    usual = step(**alone, vpp=1, schedule=None)
    layered = step(**alone, vpp=32, schedule="breadth_first", gather_per_block=True)
    layers = 32
    assert usual.num_micro_batches == 3
    assert gathers(layered) <= 2 * layers < gathers(usual)
    assert layered.step_time_s < usual.step_time_s
    assert layered.peak_memory_allocated_bytes > usual.peak_memory_allocated_bytes
    with pytest.raises(BadInput, match="must be 1 without a pipeline"):
        step(**alone, vpp=4, schedule="breadth_first")
