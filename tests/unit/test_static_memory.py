"""Weights, masters and gradients that live through the step, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel.training.predict import simulate_training

SCENARIO: dict[str, Any] = {
    "model": "meta-llama/Llama-3.2-1B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
    "training": {"seq_len": 2048, "global_batch": 16, "framework": "torchtitan"},
    "plan": {"zero": 3},
}


def kinds(*settings: str) -> dict[str, float]:
    return simulate_training(SCENARIO, overrides=settings, sensitivities=False).memory.at_peak


def test_no_sync_keeps_whole_gradients() -> None:
    shard, whole = kinds(), kinds("training.gradient_accumulation_sync=false")
    assert whole["gradients (late)"] == pytest.approx(8 * shard["gradients (late)"], rel=1e-3)


def test_fsdp_weights_are_the_master_copy() -> None:
    plain, said, half = kinds(), kinds("training.master_weights=fp32"), kinds("training.master_weights=bf16")
    assert (said["weights"], said["optimizer"]) == (plain["weights"], plain["optimizer"])
    assert half["weights"] == pytest.approx(plain["weights"] / 2)
    assert half["optimizer"] == plain["optimizer"]


def test_zero_2_reduces_every_micro_batch() -> None:
    def step(zero: int, batch: int) -> float:
        settings = [f"plan.zero={zero}", f"training.global_batch={batch}", "cluster.nodes=4"]
        return simulate_training(SCENARIO, overrides=settings, sensitivities=False).step_time_s

    assert step(2, 32) == step(1, 32)  # one micro-batch: one reduction either way
    assert step(2, 128) > step(1, 128)
