"""Predicted peaks of fine-tuning beside published ones (docs/accuracy/fine-tuning.md has sources and misses)."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel.training.predict import prepare
from windtunnel.training.simulate_step import memory_of
from windtunnel.units import GiB

EVERY = ["q", "k", "v", "proj", "gate", "up", "fc2"]
TORCHTUNE = {"rank": 8, "targets": ["q", "v", "proj", "gate", "up", "fc2"]}


def peak_bytes(model: str, device: str, devices: int, training: dict[str, Any], **plan: Any) -> float:
    """Allocated peak of one step of so many devices, micro-batch 1 unless the plan says otherwise."""
    plan = {"mbs": 1, "recompute": {"policy": "full"}, **plan}
    scenario = {
        "model": model,
        "cluster": {"device": device, "nodes": 1, "devices_per_node": devices},
        "training": {"global_batch": plan["mbs"] * devices, **training},
        "plan": plan,
    }
    return float(memory_of(prepare(scenario)[0]).peak_allocated_bytes)


def torchtune(model: str, device: str, devices: int = 1, **more: Any) -> float:
    """A torchtune recipe: two rows of 2,048 tokens a device, compiled, the loss in pieces."""
    plan = {"mbs": 2, "zero": 3 if devices > 1 else 0}
    training = {"seq_len": 2048, "framework": "torchtune", "compile": True, "fused_cross_entropy": True}
    return peak_bytes(model, device, devices, {**training, **more}, **plan) / GiB


@pytest.mark.parametrize(
    ("model", "device", "devices", "lora", "published_gib"),
    [
        ("meta-llama/Llama-3.1-8B", "a6000-48gb", 1, None, 37.4),
        ("meta-llama/Llama-3.1-8B", "rtx-4090", 1, TORCHTUNE, 16.2),
        ("meta-llama/Llama-3.1-8B", "rtx-4090", 1, {**TORCHTUNE, "quantized_base": "nf4"}, 7.4),
        ("meta-llama/Llama-3.1-70B", "a100-sxm-80gb", 8, {**TORCHTUNE, "rank": 16}, 27.6),
    ],
)
def test_torchtune_readme(
    model: str, device: str, devices: int, lora: dict[str, Any] | None, published_gib: float
) -> None:
    """Source: pytorch/torchtune README.md at bd2a0fc, "Memory and training speed"."""
    method = (
        {"phase": "lora", "lora": lora}
        if lora
        else {"phase": "sft", "optimizer": "adam8bit", "optimizer_in_backward": True}
    )
    assert torchtune(model, device, devices, **method) == pytest.approx(published_gib, rel=0.08)


@pytest.mark.parametrize(
    ("base", "table"), [(None, (16, 32, 64, 160)), ("int8", (10, 20, 40, 80)), ("pure", (60, 120, 300, 600))]
)
def test_llama_factory_readme(base: str | None, table: tuple[int, ...]) -> None:
    """Estimates of hiyouga/LLaMA-Factory README.md at ff6d4d1, rounded by their authors to round numbers."""
    for size, published in zip(("7B", "14B", "32B", "72B"), table, strict=True):
        method: dict[str, Any] = {"phase": "sft"}
        if base != "pure":
            method = {"phase": "lora", "lora": {"targets": EVERY, "quantized_base": base or False}}
        training = {"seq_len": 512, "framework": "transformers", **method}
        found = peak_bytes(f"Qwen/Qwen2.5-{size}", "b300-sxm-270gb", 1, training, zero=0)
        assert found / 1e9 == pytest.approx(published, rel=0.15)


def test_a_65b_model_on_one_48_gb_card() -> None:
    """Source: Dettmers et al. 2023 (arXiv 2305.14314), abstract."""
    lora = {"rank": 64, "targets": EVERY, "quantized_base": "nf4"}
    training = {"seq_len": 512, "framework": "transformers", "phase": "lora", "lora": lora}
    assert peak_bytes("huggyllama/llama-65b", "a6000-48gb", 1, training, zero=0) < 48 * GiB
