"""Mixed precision by `torch.autocast`: copies of weights that live until backward, fp32 gradients, and their casts."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel.training.predict import simulate_training
from windtunnel.training.results.training_result import TrainingResult

HIDDEN, LAYERS, VOCAB, INNER = 1024, 4, 4096, 4096
MATRICES = LAYERS * (4 * HIDDEN * HIDDEN + 3 * HIDDEN * INNER) + VOCAB * HIDDEN
"""Weights that products read, head included."""


def _step(framework: str = "ddp", plan: dict[str, Any] | None = None, **training: Any) -> TrainingResult:
    model = {
        "name": "m",
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 8,
        "vocab_size": VOCAB,
        "intermediate_size": INNER,
        "norm": "rmsnorm",
    }
    scenario = {
        "model": model,
        "cluster": {"device": "a100-sxm-80gb", "nodes": 1, "devices_per_node": 2},
        "training": {"seq_len": 512, "global_batch": 4, "precision": "bf16", "framework": framework, **training},
        "plan": {"mbs": 1, "tp": 2, "sp": False, **(plan or {})},
    }
    return simulate_training(scenario, sensitivities=False)


def test_copies_of_weights_and_fp32_gradients_are_held() -> None:
    with_it, without = _step(seq_len=8192), _step(seq_len=8192, autocast=False)  # devices are busy, not the host
    more = with_it.peak_memory_allocated_bytes - without.peak_memory_allocated_bytes
    copies, gradients = 2.0 * MATRICES / 2, 2.0 * (MATRICES + VOCAB * HIDDEN) / 2  # tp 2
    assert more == pytest.approx(copies + gradients, rel=0.1)


def test_checkpoints_give_the_copies_up_but_for_the_layer_that_runs_again() -> None:
    full = {"recompute": {"policy": "full"}}
    held = [
        _step(plan=p).peak_memory_allocated_bytes - _step(plan=p, autocast=False).peak_memory_allocated_bytes
        for p in ({}, full)
    ]
    others = (MATRICES - VOCAB * HIDDEN) * (LAYERS - 1) / LAYERS
    assert held[0] - held[1] > 0.8 * 2.0 * others / 2  # two bytes each, tp 2


def test_casts_take_time_and_small_weights_launches() -> None:
    with_it, without = _step(seq_len=8192), _step(seq_len=8192, autocast=False)  # devices are busy, not the host
    moved = 2 * 4 * 6.0 * MATRICES / 2  # forward and backward of four micro-batches, read and written
    least = moved / 2.039e12
    assert least < with_it.step_time_s - without.step_time_s < 3 * least


def test_frameworks_without_fp32_weights_and_sharded_ones_do_not_cast() -> None:
    for framework, plan, why in (
        ("megatron_core", {}, "keeps its weights in the format"),
        ("ddp", {"tp": 1, "zero": 3}, "zero 3"),
    ):
        found, plain = _step(framework, plan, autocast=True), _step(framework, plan, autocast=False)
        assert found.step_time_s == plain.step_time_s
        assert found.peak_memory_allocated_bytes == plain.peak_memory_allocated_bytes
        assert any("training.autocast" in w and why in w for w in found.warnings), found.warnings
    full = _step(precision="fp32", autocast=True)
    assert full.step_time_s == _step(precision="fp32").step_time_s
