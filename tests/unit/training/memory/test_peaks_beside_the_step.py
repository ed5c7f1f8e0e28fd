"""Memory that frameworks take beside a step's tensors: unfused optimizers, host copies, graphs of whole steps."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel.training.predict import prepare
from windtunnel.training.results.records import MemoryReport
from windtunnel.training.simulate_step import memory_of

GIB = 2**30


def report(training: dict[str, Any], plan: dict[str, Any], model: str = "llama2-7b", devices: int = 8) -> MemoryReport:
    scenario = {
        "model": model,
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": devices},
        "training": {"seq_len": 512, "global_batch": 8} | training,
        "plan": {"mbs": 1, "recompute": {"policy": "full"}} | plan,
    }
    return memory_of(prepare(scenario)[0])


def test_trainers_optimizer_writes_two_tensors_of_its_shard() -> None:
    """LlamaFactory issue 1221: 28.28 GiB held and 3.14 asked in a step of 7B under ZeRO-2 on eight devices."""
    common = {"framework": "deepspeed", "precision": "fp16"}
    own, trainers = (report(common | {"phase": phase}, {"zero": 2}) for phase in ("pretrain", "sft"))
    shard = 4 * 6.738e9 / 8
    assert trainers.peak_allocated_bytes - own.peak_allocated_bytes == pytest.approx(2 * shard, rel=0.2)
    assert trainers.peak_allocated_bytes > 28.28 * GIB


def test_grouped_operators_of_adam_write_one_copy_and_fused_kernels_none() -> None:
    """Hugging Face's trainer: `adamw_torch` until 2025, `adamw_torch_fused` after it."""
    old, new = (
        report({"framework": "transformers", "phase": "sft", "framework_version": v}, {"zero": 0}, devices=1)
        for v in ("4.45", "4.56")
    )
    assert old.peak_allocated_bytes - new.peak_allocated_bytes == pytest.approx(2 * 6.738e9, rel=0.1)


def test_host_memory_of_an_offloaded_step() -> None:
    """DeepSpeed issue 7693: 28 bytes a parameter under ZeRO-2, of which states and gradients are 16."""
    found = report({"framework": "deepspeed"}, {"zero": 2, "offload": {"optimizer": 1.0}})
    assert found.host_bytes == pytest.approx(28 * 6.738e9 / 8, rel=0.01)


def test_a_graph_of_the_whole_step_leaves_what_came_before_it_cached() -> None:
    graphs = {"framework": "megatron_core", "cuda_graphs": "full"}
    fixed = report(graphs | {"expandable_segments": False}, {"zero": 1})
    expandable = report(graphs | {"expandable_segments": True}, {"zero": 1})
    without = report({"framework": "megatron_core", "expandable_segments": False}, {"zero": 1})
    assert fixed.peak_allocated_bytes == pytest.approx(expandable.peak_allocated_bytes, rel=1e-3)
    assert fixed.reserved_by_allocator_bytes > without.reserved_by_allocator_bytes
    assert (fixed.fit_probability or 0.0) <= (expandable.fit_probability or 0.0)
