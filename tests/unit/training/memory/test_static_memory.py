"""Weights, masters and gradients that live through the step, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from windtunnel.training.memory.static_memory import static_memory
from windtunnel.training.predict import prepare, simulate_training

SCENARIO: dict[str, Any] = {
    "model": "meta-llama/Llama-3.2-1B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
    "training": {"seq_len": 2048, "global_batch": 16, "framework": "torchtitan"},
    "plan": {"zero": 3},
}


def kinds(*settings: str) -> dict[str, float]:
    return simulate_training(SCENARIO, overrides=settings, sensitivities=False).memory.at_peak


def late_gradients(*settings: str) -> float:
    x, _ = prepare(SCENARIO, overrides=settings)
    static = static_memory(x.stages, x.plan, x.training, x.behaviour, x.schedule.placement[:, 0].astype(np.int64))
    return float(static.late_gradient_bytes.sum())


def test_no_sync_keeps_whole_gradients() -> None:
    settings = ("training.global_batch=32", "training.gradient_accumulation_sync=false")
    assert late_gradients(*settings) == pytest.approx(8 * late_gradients(settings[0]), rel=1e-3)


def test_fsdp_weights_are_the_master_copy() -> None:
    plain, said, half = kinds(), kinds("training.master_weights=fp32"), kinds("training.master_weights=bf16")
    assert (said["weights"], said["optimizer"]) == pytest.approx((plain["weights"], plain["optimizer"]))
    assert half["weights"] == pytest.approx(plain["weights"] / 2)
    assert half["optimizer"] == pytest.approx(plain["optimizer"])


def test_zero_2_reduces_every_micro_batch() -> None:
    def step(zero: int, batch: int) -> float:
        settings = [f"plan.zero={zero}", f"training.global_batch={batch}", "cluster.nodes=4"]
        return simulate_training(SCENARIO, overrides=settings, sensitivities=False).step_time_s

    assert step(2, 32) == step(1, 32)  # one micro-batch: one reduction either way
    assert step(2, 128) > step(1, 128)


# -- one device, every feature of a fine-tuning framework -------------------------------------------------------------
TUNE: dict[str, Any] = {
    "model": "meta-llama/Llama-3.2-1B",
    "cluster": {"device": "a100-sxm-80gb", "nodes": 1, "devices_per_node": 1},
    "training": {
        "seq_len": 4096,
        "global_batch": 2,
        "framework": "torchtune",
        "phase": "sft",
        "compile": True,
        "fused_cross_entropy": True,
    },
    "plan": {"zero": 0, "mbs": 2, "recompute": "full"},
}


def tune(*settings: str) -> dict[str, float]:
    return simulate_training(TUNE, overrides=settings, sensitivities=False).memory.at_peak


def test_a_chunked_loss_holds_one_more_piece_than_the_logits() -> None:
    logits = 2 * 4096 * 128256 * 2
    held = tune("training.optimizer_in_backward=true")
    assert held["logits and head"] < logits * 9 / 8 + 2 * 4096 * 2048 * 2 * 3
    assert tune("training.fused_cross_entropy=false")["logits and head"] > 5.9 * logits  # fp32: copy, output, gradients


def test_two_gradients_of_shared_weights_exist_at_once() -> None:
    """The embedding's gradient is made while the head's waits to be added to it."""
    held = tune("training.seq_len=128")
    params = held["weights"] / 2
    assert held["gradients"] == pytest.approx(2 * (params + 128256 * 2048), rel=0.01)


def test_activation_offload_leaves_no_block_inputs() -> None:
    kept, gone = (
        tune("training.optimizer_in_backward=true"),
        tune("training.optimizer_in_backward=true", "plan.offload={activations: 1.0}"),
    )
    assert kept["activations"] - gone["activations"] == pytest.approx(16 * 2 * 4096 * 2048 * 2, rel=0.07)


def test_quantised_base_takes_four_bits_a_matrix_weight() -> None:
    half = tune("training.phase=lora", "training.lora={rank: 16}")
    nf4 = tune("training.phase=lora", "training.lora={quantized_base: true}")
    matrices = 16 * (2048 * 2048 * 2 + 2 * 2048 * 512 + 3 * 2048 * 8192)
    assert half["weights"] - nf4["weights"] == pytest.approx(matrices * (2 - 0.5159), rel=0.01)


def test_muon_keeps_one_momentum_of_matrices() -> None:
    adam, muon = kinds(), kinds("training.optimizer=muon")
    matrices = 16 * (2048 * 2048 * 2 + 2 * 2048 * 512 + 3 * 2048 * 8192)
    assert adam["optimizer"] - muon["optimizer"] == pytest.approx(4 * matrices / 8, rel=0.01)


def test_inputs_of_frozen_products_are_not_kept() -> None:
    """Adapters on q, k and v alone: neither the MLP's normalised input nor its product is read again."""
    lora = "training.phase=lora"
    everywhere, few = (
        tune("plan.recompute=none", lora, f"training.lora={{targets: [{targets}]}}")["activations"]
        for targets in ("qkv, proj, fc1, fc2", "qkv")
    )
    assert everywhere - few == pytest.approx(16 * 2 * 4096 * (2048 + 8192) * 2, rel=0.01)
