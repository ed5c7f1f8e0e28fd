"""Share of the expert exchange, and what sending a fifth of its rows gains."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from windtunnel.training.predict import simulate_training
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "lsh-moe")
fixed = EXPERIMENT.fixed


def scenario(values: Values, name: str, techniques: list[Any]) -> Values:
    """One step of one model on its cluster, experts over all GPUs."""
    layers, hidden, width, experts, seq_len, where = fixed("models")[name]
    device, nodes, gbit = fixed("clusters")[where]
    gpus = 8 * nodes
    mbs = max(values["tokens_per_gpu"] // seq_len, 1)
    return {
        "model": {
            "name": name,
            "family": "moe",
            "hidden_size": hidden,
            "num_hidden_layers": layers,
            "vocab_size": 50265,
            "num_attention_heads": hidden // 64,
            "intermediate_size": 4 * hidden,
            "gated_mlp": False,
            "hidden_act": "gelu",
            "norm": "layernorm",
            "position_embedding": "learned",
            "max_position_embeddings": seq_len,
            "num_experts": experts,
            "num_experts_per_tok": fixed("topk"),
            "moe_intermediate_size": width,
            "moe_layer_freq": 2,
        },
        "cluster": {
            "device": device,
            "nodes": nodes,
            "devices_per_node": 8,
            "scale_out": {"nics_per_node": 1, "nic_bytes_per_s": gbit * 1e9 / 8, "latency_s": "5 us"},
        },
        "training": {
            "seq_len": seq_len,
            "global_batch": gpus * mbs,
            "precision": values["precision"],
            "framework": "megatron_deepspeed",
        },
        "plan": {"ep": min(experts, gpus), "mbs": mbs, "zero": 1},
        "techniques": techniques,
    }


@lru_cache(maxsize=64)
def _step(text: str) -> tuple[float, float]:
    """Seconds of a step and share of it that waits for the exchange."""
    run = simulate_training(json.loads(text), sensitivities=False)
    return run.step_time_s, float(run.breakdown.get("exposed ep", 0.0)) / run.step_time_s


def step(values: Values, name: str, *, hashed: bool) -> tuple[float, float]:
    """With and without compression; equal steps are simulated once."""
    chosen: list[Any] = [{"lsh-moe": {"kept": fixed("kept")}}] if hashed else []
    return _step(json.dumps(scenario(values, name, chosen), sort_keys=True))


def speedups(values: Values) -> list[float]:
    """Model by model."""
    return [step(values, name, hashed=False)[0] / step(values, name, hashed=True)[0] for name in fixed("models")]


def share(values: Values) -> float:
    """Percent of a step, average of the models."""
    found = [step(values, name, hashed=False)[1] for name in fixed("models")]
    return float(100.0 * sum(found) / len(found))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "share": share,
        "speedup/least": lambda values: min(speedups(values)),
        "speedup/most": lambda values: max(speedups(values)),
    }
