"""Dispatch in two levels against DeepSpeed's, and devices by the load of unlike tasks."""

from __future__ import annotations

from windtunnel_lab.reproduce.claims import Measure, simulated
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "se-moe")
fixed = EXPERIMENT.fixed


def step_s(values: Values, gpus: int, dispatcher: str) -> float:
    """Seconds of a step of the mixture with an expert a GPU."""
    hidden = fixed("hidden")
    return simulated(
        {
            "model": {
                "name": "GPT with experts",
                "family": "moe",
                "hidden_size": hidden,
                "num_hidden_layers": fixed("layers"),
                "vocab_size": 50304,
                "num_attention_heads": 64,
                "intermediate_size": 4 * hidden,
                "gated_mlp": False,
                "hidden_act": "gelu",
                "norm": "layernorm",
                "position_embedding": "learned",
                "max_position_embeddings": 1024,
                "num_experts": gpus,
                "num_experts_per_tok": 1,
                "moe_intermediate_size": 4 * hidden,
            },
            "cluster": {
                "device": "a100-sxm-80gb",
                "nodes": gpus // 8,
                "devices_per_node": 8,
                "scale_out": {"nics_per_node": 8, "nic_bytes_per_s": values["nic_gbit"] * 1e9 / 8, "latency_s": "5 us"},
            },
            "training": {
                "seq_len": 1024,
                "global_batch": gpus * values["sequences"],
                "precision": "fp16",
                "framework": "megatron_deepspeed",
                "moe_dispatcher": dispatcher,
                "moe_gate": "masks" if dispatcher == "einsum" else "fused",
            },
            "plan": {"ep": gpus, "mbs": values["sequences"], "zero": 1},
        }
    ).step_time_s


def training(values: Values) -> float:
    """Largest gain over numbers of GPUs."""
    return max(step_s(values, n, "einsum") / step_s(values, n, "deepep") for n in fixed("gpus"))


def task_s(values: Values, batch: int, gpus: int) -> float:
    """Seconds of a step of one task on its own GPUs."""
    return simulated(
        {
            "model": {
                "name": "vision trunk",
                "family": "vit",
                "hidden_size": 1024,
                "num_hidden_layers": values["vision_layers"],
                "vocab_size": 1,
                "num_attention_heads": 16,
                "intermediate_size": 4096,
                "gated_mlp": False,
                "hidden_act": "gelu",
                "norm": "layernorm",
                "position_embedding": "learned",
                "image_size": 224,
                "patch_size": 16,
                "num_labels": 1000,
            },
            "cluster": {"device": "a100-sxm-80gb", "nodes": 1, "devices_per_node": gpus},
            "training": {"seq_len": 197, "global_batch": batch, "framework": "ddp"},
            "plan": {"mbs": batch // gpus, "zero": 0},
        }
    ).step_time_s


def elastic(values: Values) -> float:
    """Images a second and GPU; every step waits for the slowest task."""
    tasks, shares = fixed("tasks"), fixed("elastic")
    before = max(task_s(values, batch, 1) for batch in tasks) * len(tasks)
    after = max(task_s(values, batch, gpus) for batch, gpus in zip(tasks, shares, strict=True)) * sum(shares)
    return float(before / after)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"training": training, "elastic": elastic}
