"""Operators that Python issues beside kernels: nothing where they are fused, and linear in packed documents."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from windtunnel.training.predict import simulate_training
from windtunnel.training.results.training_result import TrainingResult
from windtunnel.training.stage_costs.eager_operators import Eager, rotation


def _step(model: str = "Qwen/Qwen3-8B", plan: dict[str, Any] | None = None, **training: Any) -> TrainingResult:
    given = {
        "model": model,
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
        "training": {"seq_len": 32768, "global_batch": 8, "framework": "megatron_bridge", **training},
        "plan": {"mbs": 1, "tp": 4, "cp": 2, "pp": 1} | (plan or {}),
    }
    return simulate_training(given, sensitivities=False)


def _host(result: TrainingResult) -> float:
    return result.breakdown.get("host", 0.0)


def test_a_fused_rotation_does_not_see_documents() -> None:
    whole, packed = (_step(fused_rope=True, mean_document_length=n).step_time_s for n in (16384, 512))
    assert packed < whole  # less attention, and nothing else


def test_a_loop_over_documents_is_linear_in_them() -> None:
    host = [_host(_step(fused_rope=False, mean_document_length=n)) for n in (1024, 512, 256)]
    assert host[2] - host[1] == pytest.approx(2 * (host[1] - host[0]), rel=0.05)
    assert host[2] > 2 * host[0]


def test_unpacked_rows_are_rotated_ahead_of_the_device() -> None:
    fused, unfused = (_step(fused_rope=value) for value in (True, False))
    assert 1.0 < unfused.step_time_s / fused.step_time_s < 1.1


def test_an_exchange_of_packed_documents_waits_for_each_of_them() -> None:
    plan = {"cp_kind": "all_to_all"}
    few, many = (_host(_step(plan=plan, fused_rope=True, mean_document_length=n)) for n in (2048, 512))
    ring = _host(_step(plan={"cp_kind": "ring"}, fused_rope=True, mean_document_length=512))
    assert many == pytest.approx(4 * few, rel=0.1)
    assert many > 20 * ring


def test_recomputation_does_it_again() -> None:
    plan = {"cp_kind": "all_to_all"}
    once, twice = (
        _host(_step(plan=plan | {"recompute": policy}, mean_document_length=512)) for policy in ("none", "full")
    )
    # of 56 operators forward and 36 backward in whole units of pieces, those forward run again
    assert 1.3 < twice / once < 1.8


def test_releases_that_order_documents_in_a_kernel_do_not_wait() -> None:
    plan = {"cp_kind": "all_to_all"}
    old, new = (
        _host(_step(plan=plan, framework="megatron_core", framework_version=v, mean_document_length=512))
        for v in ("0.18", "2026-10")
    )
    assert new < 0.05 * old


def test_graphs_hold_the_routers_operators() -> None:
    moe = {"model": "Qwen/Qwen3-30B-A3B", "plan": {"tp": 1, "cp": 1, "ep": 8}}
    eager = _step(**moe, seq_len=512, cuda_graphs="none", moe_dispatcher="alltoall")
    held = _step(**moe, seq_len=512, cuda_graphs="moe", moe_dispatcher="alltoall")
    assert _host(held) < _host(eager)


def _mixture(**training: Any) -> TrainingResult:
    given = {
        "model": "Qwen/Qwen3-30B-A3B",
        "cluster": {"device": "gb200", "nodes": 2, "devices_per_node": 4},
        "training": {"seq_len": 4096, "global_batch": 64, "precision": "mxfp8", "framework": "megatron_bridge"}
        | training,
        "plan": {"mbs": 4, "tp": 1, "pp": 1, "ep": 8},
    }
    return simulate_training(given, sensitivities=False)


def test_whole_step_graphs_of_fused_experts_copy_what_backward_needs() -> None:
    """Rows of 4 · 4,096 tokens with eight experts each: (2,048 + 768) · 33/32 + 2 · 768 · 2 bytes, read and written."""
    full, layer = (
        _mixture(cuda_graphs=graphs, fused_experts=True, moe_dispatcher="hybridep").breakdown["memory bound"]
        for graphs in ("full", "layer")
    )
    moved = 2 * 2 * 4 * 4096 * 8 * ((2048 + 768) * 33 / 32 + 2 * 768 * 2)
    assert layer > 0
    at_peak = moved * 48 * 2 / 8e12  # 48 layers, two micro-batches
    assert at_peak < full - layer < 3 * at_peak


def test_permutation_by_single_operators_moves_more() -> None:
    step = {
        value: _mixture(fused_permute=value, moe_dispatcher="alltoall").step_time_s for value in (None, True, False)
    }
    assert step[None] == step[True] < step[False]


def test_operators_of_a_rotation() -> None:
    """Two tensors of 12 operators forward and 9 backward; latent attention one and two more."""
    plan = SimpleNamespace(cp=1)
    segment = SimpleNamespace(launches=[SimpleNamespace(module="rope", phase=phase) for phase in "FD"])
    plain, latent = (SimpleNamespace(position_embedding="rope", is_mla=mla) for mla in (False, True))
    ahead = Eager(rotates=True)
    assert rotation(segment, plain, plan, ahead) == (2 * 12 + 2 * 9, 0.0)
    assert rotation(segment, latent, plan, ahead) == (2 * 13 + 2 * 11, 0.0)
    looped = Eager(rotates=True, documents=4.0, rope_by_document=True)
    assert rotation(segment, plain, plan, looped) == (4 * (18 + 2 * 3), 4 * (24 + 2 * 1) + 2 * 5)
    forward = SimpleNamespace(launches=segment.launches[:1])
    assert rotation(forward, plain, plan, Eager(rotates=True, documents=4.0)) == (0.0, 24 + 2 * 16)
