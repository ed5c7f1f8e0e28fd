"""What dropping duplicate tokens and keeping results of collectives gains, and how large a base model fits."""

from __future__ import annotations

from typing import Any

from windtunnel_lab.reproduce.claims import Measure, simulated
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "deepspeed-ted")
fixed = EXPERIMENT.fixed
BASELINE = {"drop_duplicates": False, "keep_collectives": False}


def model(hidden: int, layers: int, heads: int) -> Values:
    """A GPT with experts in every other layer."""
    return {
        "name": "GPT with experts",
        "family": "moe",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "vocab_size": 50257,
        "num_attention_heads": heads,
        "intermediate_size": 4 * hidden,
        "gated_mlp": False,
        "hidden_act": "gelu",
        "norm": "layernorm",
        "attention_bias": True,
        "mlp_bias": True,
        "position_embedding": "learned",
        "max_position_embeddings": fixed("seq_len"),
        "num_experts": fixed("experts"),
        "num_experts_per_tok": 1,
        "moe_intermediate_size": 4 * hidden,
        "moe_layer_freq": 2,
        "tie_word_embeddings": True,
    }


def scenario(values: Values, shape: Values, tp: int, mbs: int, batch: int, techniques: list[Any]) -> Values:
    """One step on all GPUs."""
    link = {"id": "nvlink2", "family": "nvlink2", "bytes_per_s": values["link_gb_per_s"] * 1e9, "latency_s": "2 us"}
    return {
        "model": shape,
        "cluster": {
            "device": "v100-sxm-16gb",
            "nodes": fixed("gpus") // fixed("per_node"),
            "devices_per_node": fixed("per_node"),
            "scale_up": link,
            "scale_out": {
                "nics_per_node": fixed("nics"),
                "nic_bytes_per_s": fixed("nic_gbit") * 1e9 / 8,
                "latency_s": "4 us",
            },
        },
        "training": {
            "seq_len": fixed("seq_len"),
            "global_batch": batch,
            "precision": "fp16",
            "framework": "megatron_deepspeed",
            "moe_dispatcher": "einsum",
            "moe_gate": "masks",
        },
        "plan": {
            "tp": tp,
            "ep": fixed("experts"),
            "sp": False,
            "mbs": mbs,
            "zero": 1,
            "recompute": {"policy": "full"},
        },
        "techniques": techniques,
    }


def speedup(values: Values) -> float:
    """Step time of the baseline over that of the technique."""
    _, hidden, layers, heads = next(base for base in fixed("bases") if base[0] == 6.7)
    shape, size = model(hidden, layers, heads), (fixed("tp"), values["mbs"], values["batch"])
    steps = [
        simulated(scenario(values, shape, *size, [{"deepspeed-ted": knobs}])).step_time_s for knobs in (BASELINE, {})
    ]
    return steps[0] / steps[1]


def largest(values: Values, tps: tuple[int, ...]) -> float:
    """Billions of weights of the largest base model that fits, one sequence a replica."""
    best = 0.0
    for size, hidden, layers, heads in fixed("bases"):
        for tp in tps:
            chosen: list[Any] = [{"deepspeed-ted": {}}] if tp > 1 else []
            step = scenario(values, model(hidden, layers, heads), tp, 1, fixed("gpus") // tp, chosen)
            if simulated(step).fits:
                best = size
    return best


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"speedup": speedup, "base-model": lambda values: largest(values, (1, 2, 4)) / largest(values, (1,))}
