"""DeepSpeed's stage 2 reduces gradients in every micro-batch, stage 1 once, at the boundary of accumulation."""

from __future__ import annotations

import pytest

from windtunnel.training.predict import simulate_training


def _reduced_s(zero: int, micro_batches: int) -> float:
    """Seconds of gradient reductions that nothing hides."""
    training = {"framework": "deepspeed", "seq_len": 2048, "global_batch": 16 * micro_batches}
    cluster = {"device": "h100-sxm-80gb", "nodes": 2, "devices_per_node": 8}
    plan = {"zero": zero, "mbs": 1}
    given = {"model": "meta-llama/Llama-3.2-1B", "cluster": cluster, "training": training, "plan": plan}
    return simulate_training(given, sensitivities=False).breakdown["exposed dp"]


def test_stage_2_pays_a_reduction_for_every_micro_batch() -> None:
    gathers = _reduced_s(1, 8)
    one, two, eight = (_reduced_s(2, m) for m in (1, 2, 8))
    assert one == pytest.approx(_reduced_s(1, 1), rel=1e-6)
    assert two > 1.2 * one
    assert eight - one == pytest.approx(7.0 * (two - one), rel=0.02)
    assert gathers == pytest.approx(_reduced_s(1, 2), rel=0.02)
