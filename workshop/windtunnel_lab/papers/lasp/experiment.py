"""How long a sequence of a linear-attention model may be on a number of GPUs, by what memory holds."""

from __future__ import annotations

from functools import partial
from typing import Any

from windtunnel_lab.reproduce.claims import Measure, simulated
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def model(values: Values, *, linear: bool) -> Values:
    """The paper's model, or its twin with softmax attention that existing methods are made for."""
    heads, hidden = fixed("heads"), fixed("hidden")
    shape = {
        "name": "TNL 1B",
        "family": "linear_attention" if linear else "dense",
        "hidden_size": hidden,
        "num_hidden_layers": fixed("layers"),
        "vocab_size": values["vocab"],
        "num_attention_heads": heads,
        "intermediate_size": values["ffn"],
    }
    size = hidden // heads
    return (
        shape
        | {
            "linear_attention_kind": "decayed",
            "full_attention_interval": 1000000,
            "linear_num_key_heads": heads,
            "linear_num_value_heads": heads,
            "linear_key_head_dim": size,
            "linear_value_head_dim": size,
        }
        if linear
        else shape
    )


def scenario(values: Values, k_tokens: int, *, linear: bool, **plan: Any) -> Values:
    """One step on all GPUs with sequences of so many thousand tokens, one a replica."""
    gpus, per_node = fixed("gpus"), fixed("per_node")
    replicas = gpus // (plan.get("cp", 1) * plan.get("tp", 1))
    return {
        "model": model(values, linear=linear),
        "cluster": {"device": "a100-sxm-80gb", "nodes": gpus // per_node, "devices_per_node": per_node},
        "training": {
            "seq_len": 1024 * k_tokens,
            "global_batch": replicas,
            "precision": fixed("precision"),
            "framework": fixed("framework"),
        },
        "plan": {"zero": 3, "mbs": 1, "recompute": {"policy": values["recompute"]}} | plan,
    }


def longest_k(values: Values, *, linear: bool, **plan: Any) -> float:
    """Thousands of tokens of the longest sequence that fits, by powers of two."""
    best, k = 0, fixed("smallest_k")
    while k <= fixed("largest_k"):
        if not simulated(scenario(values, k, linear=linear, **plan)).fits:
            break
        best, k = k, 2 * k
    return float(best)


def lasp(values: Values) -> float:
    """A sequence over all GPUs."""
    return longest_k(values, linear=True, cp=fixed("gpus"), cp_kind="ring")


def existing(values: Values) -> float:
    """The better of Ulysses and Megatron's sequence parallelism, at as many ranks as there are heads."""
    heads = fixed("heads")
    ulysses = longest_k(values, linear=False, cp=heads, cp_kind="all_to_all")
    return max(ulysses, longest_k(values, linear=False, tp=heads, sp=True))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"length": partial(lasp), "ratio": lambda values: lasp(values) / existing(values)}
