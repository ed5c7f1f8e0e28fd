"""The largest model that eight GPUs and their host hold: PatrickStar's chunks against DeepSpeed's host."""

from __future__ import annotations

from typing import Any

from windtunnel_lab.reproduce.claims import Measure, simulated
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed
GROWTH = 1.1


def scenario(cluster: str, nodes: int, layers: int, hidden: int, values: Values, technique: Values) -> Values:
    """One step under ZeRO-3 with full recomputation."""
    device, host_gb = fixed(cluster)
    return {
        "model": {
            "name": f"GPT of {layers} layers",
            "family": "dense",
            "hidden_size": hidden,
            "num_hidden_layers": layers,
            "vocab_size": fixed("vocab_size"),
            "num_attention_heads": hidden // 128,
            "intermediate_size": 4 * hidden,
            "gated_mlp": False,
            "hidden_act": "gelu",
            "norm": "layernorm",
            "attention_bias": True,
            "mlp_bias": True,
            "tie_word_embeddings": True,
            "position_embedding": "learned",
            "max_position_embeddings": fixed("seq_len"),
        },
        "cluster": {"device": device, "nodes": nodes, "devices_per_node": 8, "host_memory_bytes": host_gb * 1e9},
        "training": {
            "seq_len": fixed("seq_len"),
            "global_batch": 8 * nodes * values["mbs"],
            "precision": "fp16",
            "framework": "deepspeed",
            "attention": "unfused",
        },
        "plan": {"mbs": values["mbs"], "zero": 3, "recompute": {"policy": "full"}},
        "techniques": [technique],
    }


def chunked(cluster: str, nodes: int, layers: int, hidden: int, values: Values) -> bool:
    """Whether some shares of chunks on the host fit."""
    return any(
        simulated(scenario(cluster, nodes, layers, hidden, values, {"patrickstar": {"params": p, "optimizer": o}})).fits
        for p in (0.0, 1.0)
        for o in fixed("shares")
    )


def on_host(cluster: str, layers: int, values: Values) -> bool:
    """Whether DeepSpeed's host holds what it pins."""
    host = scenario(cluster, 1, layers, fixed("hidden"), values, {"zero-infinity": {}})
    gb = host["cluster"]["host_memory_bytes"] / values["pinned_rounding"]
    return simulated(host | {"cluster": host["cluster"] | {"host_memory_bytes": gb}}).fits


def largest(fits: Any) -> int:
    """Most layers of the ladder that fit."""
    low, high = 0, int(fixed("steps"))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(round(4 * GROWTH**middle)) else (low, middle - 1)
    return round(4 * GROWTH**low)


def scale(values: Values, cluster: str) -> float:
    """Layers of the largest chunked model over those of DeepSpeed's: sizes at one width."""
    ours = largest(lambda layers: chunked(cluster, 1, layers, fixed("hidden"), values))
    theirs = largest(lambda layers: on_host(cluster, layers, values))
    return ours / theirs


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "scale/v100": lambda values: scale(values, "v100"),
        "scale/a100": lambda values: scale(values, "a100"),
        "gpt3": lambda values: float(chunked("a100", 4, 96, 12288, values)),
    }
