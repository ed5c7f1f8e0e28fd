"""The memory curve by kind of tensor: gradients, logits and temporaries stand apart, and sum to the whole."""

from __future__ import annotations

import numpy as np
import pytest

import windtunnel as wt
from windtunnel.engine.memory import bytes_by_tensor, memory_curve
from windtunnel.program.tables import MemoryEvents, Timeline
from windtunnel.training.results.charts import memory_chart

SCENARIO = {
    "model": "openai-community/gpt2",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 2},
    "training": {"seq_len": 1024, "global_batch": 16, "framework": "torchtitan"},
    "plan": {"mbs": 4, "zero": 2},
}


@pytest.mark.parametrize("change", ["plan.zero=2", "plan.zero=3", "plan.tp=2", "training.framework=megatron_core"])
def test_kinds_sum_to_the_curve_and_have_the_names_of_the_table(change: str) -> None:
    memory = wt.simulate_training(SCENARIO, overrides=[change]).memory
    total = np.sum(list(memory.curve_by_kind.values()), axis=0)
    np.testing.assert_allclose(total, memory.curve_bytes, rtol=1e-9, atol=16.0)
    assert set(memory.curve_by_kind) <= {*memory.at_peak, "temporaries", "gradients", "logits and head", "activations"}
    assert all(float(size.min(initial=0.0)) > -1.0 for size in memory.curve_by_kind.values())


def test_gradients_appear_in_the_first_backward_and_are_as_large_as_they_are() -> None:
    result = wt.simulate_training(SCENARIO)
    memory = result.memory
    gradients = memory.curve_by_kind["gradients"]
    assert gradients[0] < 0.2 * gradients.max(), "the first forward has none of its own"
    assert "logits and head" in memory.curve_by_kind
    at_peak = int(memory.curve_bytes.argmax())
    for kind in ("weights", "optimizer"):
        assert memory.curve_by_kind[kind][at_peak] == pytest.approx(memory.at_peak[kind], rel=1e-6)
    assert {"gradients", "logits and head"} <= set(memory_chart(result).series)


def test_shares_of_kinds_are_those_of_the_events() -> None:
    at, ends = np.array([0.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0])
    timeline = Timeline(at, ends, np.full(3, -1, np.int32), 3.0)
    events = MemoryEvents(
        np.array([0, 1, 2, 2], np.int32),
        np.array([False, False, True, True]),
        np.array([5.0, 3.0, -5.0, -3.0]),
        np.zeros(4, np.int32),
        np.array([0, 1, 0, 1], np.int32),
        ("a", "b"),
    )
    curve = memory_curve(events, timeline).pools[0]
    shares = bytes_by_tensor(events, timeline, 0)
    np.testing.assert_allclose(shares.sum(axis=0), curve.total_bytes)
    np.testing.assert_allclose(shares[:, -1], 0.0)
    assert shares[:, int(np.argmax(curve.total_bytes))].tolist() == [5.0, 3.0]
