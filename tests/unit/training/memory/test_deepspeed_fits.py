"""What DeepSpeed has published to fit, and not to fit, into a V100 of 32 GB.

Sources: DeepSpeed `docs/_tutorials/zero.md` (1.5B runs out of memory on eight V100s without ZeRO and runs with stage 1;
10B on 32 V100s with stage 2), `docs/_tutorials/zero-offload.md` (10B, ten sequences, one V100; nvidia-smi shows 32,290
of 32,480 MiB), `docs/_pages/training.md` (13B with ZeRO-2 alone, and on one GPU with ZeRO-Offload),
`docs/_posts/2021-03-08-zero3-offload.md` (one V100: 13B with ZeRO-2 Offload, 40B with ZeRO-3 Offload and 1.5 TB of host
memory), `docs/code-docs/source/memory.rst` (bytes of model states). Shapes of 13B and 40B: 65 layers of 4,096 and 50 of
8,192, whose parameters are those of the published names.

ZeRO-Infinity (arXiv 2104.07857): table 1 (shapes, sequences a GPU and tiers, as in `papers/zero_infinity`) on DGX-2
nodes with 28 TB of drives; its abstract has a trillion parameters on one of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from windtunnel import api
from windtunnel.training.results.records import MemoryReport
from windtunnel.training.results.training_result import TrainingResult

GIB = 2**30
SMI_BYTES = 32480 * 2**20
"""What nvidia-smi says that a V100-SXM3-32GB has."""


def gpt(hidden: int, layers: int) -> dict[str, Any]:
    return {
        "name": f"GPT-2 {hidden} wide, {layers} layers",
        "family": "dense",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "vocab_size": 50304,
        "num_attention_heads": 16 if hidden == 1600 else hidden // 128,
        "intermediate_size": 4 * hidden,
        "gated_mlp": False,
        "hidden_act": "gelu",
        "norm": "layernorm",
        "attention_bias": True,
        "mlp_bias": True,
        "tie_word_embeddings": True,
        "position_embedding": "learned",
        "max_position_embeddings": 1024,
    }


def v100s(count: int) -> dict[str, Any]:
    per_node = min(count, 16)
    return {
        "device": "v100-sxm-32gb",
        "nodes": count // per_node,
        "devices_per_node": per_node,
        "scale_up_domain": per_node,
        "scale_out": {"nics_per_node": 8, "nic_bytes_per_s": "100 Gb/s", "family": "infiniband"},
        "host_memory_bytes": "1.5 TiB",
        "host_memory_bytes_per_s": "192 GB/s",
        "host_cores": 48,
    }


def run(model: Any, count: int, mbs: int, framework: str = "megatron_deepspeed", **plan: Any) -> TrainingResult:
    scenario = {
        "model": model,
        "cluster": v100s(count),
        "training": {
            "seq_len": 1024,
            "global_batch": mbs * count,
            "precision": "fp16",
            "framework": framework,
            "attention": "unfused",
        },
        "plan": {"mbs": mbs, "recompute": {"policy": "full"}, **plan},
    }
    return api.simulate_training(scenario, sensitivities=False)


def fits_at_the_border(result: TrainingResult) -> bool:
    """Whether the step fits as predicted. The largest models that ran fill their devices, which others' tries show to
    end well in about half of the cases: the probability may be somewhat below a half.
    """
    likely = result.memory.fit_probability
    return result.peak_memory_reserved_bytes < SMI_BYTES and likely is not None and likely > 0.3


OFFLOAD = {"optimizer": 1.0}
FITS: dict[str, tuple[tuple[int, int], int, int, dict[str, Any]]] = {
    "1.5B, ZeRO-1, 8 GPUs": ((1600, 48), 8, 1, {"zero": 1, "recompute": {"policy": "none"}}),
    "10B, ZeRO-2, 32 GPUs": ((4096, 50), 32, 1, {"zero": 2}),
    "13B, ZeRO-2, 128 GPUs": ((4096, 62), 128, 2, {"zero": 2}),
    "10B, ZeRO-Offload, 1 GPU": ((4096, 50), 1, 10, {"zero": 2, "offload": OFFLOAD}),
    "13B, ZeRO-Offload, 1 GPU": ((4096, 65), 1, 4, {"zero": 2, "offload": OFFLOAD}),
    "40B, ZeRO-3 Offload, 1 GPU": ((8192, 50), 1, 1, {"zero": 3, "offload": OFFLOAD | {"params": 1.0}}),
    "10B, ZeRO-3 of ZeRO-Infinity, 16 GPUs": ((4096, 50), 16, 8, {"zero": 3}),
}


@pytest.mark.parametrize("framework", ["deepspeed", "megatron_deepspeed"])
@pytest.mark.parametrize("case", FITS)
def test_published_runs_fit(case: str, framework: str) -> None:
    shape, count, mbs, plan = FITS[case]
    result = run(gpt(*shape), count, mbs, framework, **plan)
    assert fits_at_the_border(result)


INFINITY: dict[str, tuple[tuple[int, int], int, int, int, dict[str, Any]]] = {
    "50B, one node": ((8192, 62), 16, 26, 1, {"params": 1.0, "params_tier": "host"}),
    "100B, one node": ((8192, 125), 16, 24, 1, {"params": 1.0, "params_tier": "host"}),
    "0.5T, one node": ((18432, 124), 16, 8, 1, {"params": 1.0, "params_tier": "nvme"}),
    "1T, one node": ((25600, 128), 16, 7, 1, {"params": 1.0, "params_tier": "nvme"}),
    "0.5T, 32 nodes": ((18432, 124), 512, 7, 4, {}),
    "1T, 32 nodes": ((25600, 128), 512, 5, 4, {}),
}


@pytest.mark.parametrize("framework", ["deepspeed", "megatron_deepspeed"])
@pytest.mark.parametrize("case", INFINITY)
def test_runs_of_zero_infinity_fit(case: str, framework: str) -> None:
    """Their weights are larger than what stays whole: one layer of 1T takes 15.7 of a device's 32 GB."""
    shape, count, mbs, tp, offload = INFINITY[case]
    tier = "nvme" if offload else "host"
    offload = offload | {"optimizer": 1.0, "activations": 1.0, "optimizer_tier": tier, "gradients_tier": tier}
    scenario = {
        "model": gpt(*shape),
        "cluster": v100s(count)
        | {"storage": {"bytes": "28 TB", "read_bytes_per_s": "25 GB/s", "write_bytes_per_s": "16 GB/s"}},
        "training": {
            "seq_len": 1024,
            "global_batch": mbs * count // tp,
            "precision": "fp16",
            "framework": framework,
            "attention": "unfused",
        },
        "plan": {"zero": 3, "mbs": mbs, "tp": tp, "recompute": {"policy": "full"}, "offload": offload},
    }
    result = api.simulate_training(scenario, sensitivities=False)
    assert fits_at_the_border(result), result.warnings
    if shape[0] > 16384:  # one weight at a time: the first of the two of the feed-forward part, and its gradient
        weight = 2.0 * 4 * shape[0] ** 2 / tp
        at_peak = result.memory.at_peak
        assert at_peak["gathered layers"] < 2 * weight + 2e9
        assert result.memory.curve_by_kind["gathered layers"].max() < 2 * weight + 4e9


def test_layers_below_deepspeeds_limit_stay_whole() -> None:
    """1e9 parameters (`stage3_max_live_parameters`): 12 x 8,192 squared are fewer, 12 x 10,240 squared are more."""

    def gathered(hidden: int) -> float:
        return float(run(gpt(hidden, 12), 16, 1, "deepspeed", zero=3).memory.curve_by_kind["gathered layers"].max())

    assert gathered(8192) == pytest.approx(2 * 2 * 12 * 8192**2, rel=0.35)
    assert gathered(10240) < 2 * (4 * 10240**2 + 1.1e9)


def test_what_runs_out_of_memory_does_not_fit() -> None:
    assert run(gpt(1600, 48), 8, 1, zero=0, recompute={"policy": "none"}).peak_memory_reserved_bytes > SMI_BYTES
    # the largest on one GPU is 13B
    assert run(gpt(4096, 78), 1, 8, zero=2, offload=OFFLOAD).peak_memory_reserved_bytes > SMI_BYTES


TABLE_1 = {8: (120.0, 41.3, 28.1, 15.0), 64: (120.0, 31.4, 16.6, 1.88), 256: (120.0, 30.4, 15.4, 0.47)}
"""Gigabytes of model states a device: 7.5B under no ZeRO and its three stages (arXiv 1910.02054, table 1)."""


@pytest.mark.parametrize("zero", range(4))
@pytest.mark.parametrize("count", TABLE_1)
def test_states_are_those_of_the_zero_papers_table(count: int, zero: int) -> None:
    scenario = {
        "model": gpt(4096, 36),  # 7.46B
        "cluster": {"device": "h200-sxm-141gb", "nodes": count // 8, "devices_per_node": 8},
        "training": {"seq_len": 1024, "global_batch": count, "precision": "fp16", "framework": "deepspeed"},
        "plan": {"mbs": 1, "zero": zero, "recompute": {"policy": "full"}},
    }
    curve = api.simulate_training(scenario, sensitivities=False).memory.curve_by_kind
    states = sum(float(curve[kind].min()) for kind in ("weights", "gradients", "optimizer") if kind in curve)
    assert states == pytest.approx(1e9 * TABLE_1[count][zero], rel=0.02)


def test_what_offloaded_zero3_keeps_on_the_host_is_that_of_deepspeeds_estimator() -> None:
    """`estimate_zero3_model_states_mem_needs`, parameters and optimizer on the host: 18 bytes a parameter, no more."""
    offload = OFFLOAD | {"params": 1.0}
    memory = run(gpt(8192, 50), 16, 1, "deepspeed", zero=3, offload=offload).memory
    assert 16 * memory.host_bytes == pytest.approx(18 * 40.7e9, rel=0.02)
    assert not {"weights", "optimizer"} & memory.at_peak.keys()


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_states_are_those_of_deepspeeds_estimator(precision: str) -> None:
    """`estimate_zero2_model_states_mem_needs`: 16 bytes over the ranks beside the weights, 4 of them a step's cast.

    At the peak the head's gradient is a tensor of its own until it is reduced: it is larger than a bucket
    (`zero/stage_1_and_2.py`, `extra_large_param_to_reduce`).
    """
    scenario = {
        "model": "meta-llama/Llama-3.1-8B",
        "cluster": {"device": "h100-sxm-80gb", "nodes": 8, "devices_per_node": 8},
        "training": {"seq_len": 2048, "global_batch": 64, "precision": precision, "framework": "deepspeed"},
        "plan": {"zero": 2, "mbs": 1, "recompute": {"policy": "full"}},
    }
    memory = api.simulate_training(scenario, sensitivities=False).memory
    params = 8.03e9
    assert memory.at_peak["weights"] == pytest.approx(2 * params, rel=0.01)
    assert memory.at_peak["gradients"] == pytest.approx(2 * params / 64 + 2 * 128256 * 4096, rel=0.01)
    assert memory.at_peak["optimizer"] == pytest.approx(12 * params / 64, rel=0.01)
    assert memory.at_peak["reduce buckets"] == pytest.approx(1e9)  # reduce_bucket_size: 5e8
    assert 18 * GIB < memory.peak_reserved_bytes < 23 * GIB


@pytest.mark.parametrize("case", ["10B, ZeRO-Offload, 1 GPU", "10B, ZeRO-3 of ZeRO-Infinity, 16 GPUs"])
def test_the_curve_is_at_its_peak_what_the_peak_is(case: str) -> None:
    shape, count, mbs, plan = FITS[case]
    curve_and_peak_agree(run(gpt(*shape), count, mbs, **plan).memory)


@pytest.mark.parametrize("framework", ["deepspeed", "megatron_core", "torchtitan", "jax", "fsdp1", "ddp", "nemo"])
@pytest.mark.parametrize("zero", [0, 1, 2, 3])
@pytest.mark.parametrize("policy", ["none", "full"])
def test_every_frameworks_curve_is_at_its_peak_what_the_peak_is(framework: str, zero: int, policy: str) -> None:
    scenario = {
        "model": gpt(2048, 8),
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
        "training": {"seq_len": 1024, "global_batch": 32, "precision": "bf16", "framework": framework},
        "plan": {"zero": zero, "mbs": 2, "recompute": {"policy": policy}},
    }
    curve_and_peak_agree(api.simulate_training(scenario, sensitivities=False).memory)


def curve_and_peak_agree(memory: MemoryReport) -> None:
    """Kinds of the curve at its highest point are those of the peak; before the first step, only lower."""
    if "first copies of weights" in memory.at_peak:
        assert memory.curve_bytes.max() < memory.peak_allocated_bytes
        return
    top = int(np.argmax(memory.curve_bytes))
    curve = {name: float(size[top]) for name, size in memory.curve_by_kind.items() if size[top] > 1.0}
    assert curve == pytest.approx({name: size for name, size in memory.at_peak.items() if size > 1.0})


def test_the_gradients_of_an_offloaded_optimizer_are_on_the_host() -> None:
    alone, said = (run(gpt(4096, 16), 1, 4, zero=2, offload=OFFLOAD | more) for more in ({}, {"gradients": 1.0}))
    assert alone.memory.at_peak == said.memory.at_peak
    assert "gradients" not in alone.memory.at_peak


def test_megatron_has_its_weights_twice_before_the_first_step() -> None:
    """Megatron-Core `param_and_grad_buffer.py`: weights are copied into a buffer, then the first copies are freed."""
    scenario = {
        "model": gpt(4096, 50),
        "cluster": {"device": "h100-sxm-80gb", "nodes": 8, "devices_per_node": 8},
        "training": {"seq_len": 1024, "global_batch": 32, "precision": "bf16", "framework": "megatron_core"},
        "plan": {"zero": 1, "mbs": 1, "tp": 2, "recompute": {"policy": "full"}},
    }
    memory = api.simulate_training(scenario, sensitivities=False).memory
    assert memory.at_peak["first copies of weights"] == pytest.approx(memory.at_peak["weights"])
    assert memory.curve_bytes.max() < memory.peak_allocated_bytes
    assert "first copies of weights" not in memory.curve_by_kind
