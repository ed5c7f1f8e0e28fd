"""Hops that placement and staying save, and the throughput they give."""

from __future__ import annotations

from typing import Any

from windtunnel.cost.expert_placement import stay
from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.claims import Measure, served
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.figures import beside, curve
from windtunnel_lab.reproduce.settings import Values, central

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed
EXCHANGES = {"baseline": 2, "exflow": 1}


def hops(values: Values, experts: int, gpus: int, *, placed: bool) -> float:
    """Share of tokens that an all-to-all takes to another GPU."""
    return 1.0 - stay(experts, gpus, fixed("per_node"), values["affinity"], placed).rank


def fewer_hops(values: Values) -> float:
    """Percent, the largest over numbers of experts, on half as many GPUs as experts and at least a node."""
    saved = []
    for experts in fixed("experts"):
        gpus = max(experts // 4, fixed("per_node"))
        before = EXCHANGES["baseline"] * hops(values, experts, gpus, placed=False)
        after = EXCHANGES["exflow"] * hops(values, experts, gpus, placed=True)
        saved.append(100.0 * (1.0 - after / before))
    return max(saved)


def by_placement(values: Values) -> float:
    """Percent of hops that placement alone saves."""
    return 100.0 * (1.0 - hops(values, 64, 16, placed=True) / hops(values, 64, 16, placed=False))


def scenario(values: Values, experts: int, techniques: list[Any]) -> Values:
    """Answers to a batch of prompts on so many GPUs."""
    gpus = max(int(experts * values["gpus_per_expert"]), fixed("per_node"))
    hidden = fixed("hidden")
    total = gpus * values["batch"]
    return {
        "model": {
            "name": f"GPT-M with {experts} experts",
            "family": "moe",
            "hidden_size": hidden,
            "num_hidden_layers": fixed("layers"),
            "vocab_size": 50257,
            "num_attention_heads": hidden // 64,
            "intermediate_size": 4 * hidden,
            "gated_mlp": False,
            "hidden_act": "gelu",
            "norm": "layernorm",
            "position_embedding": "learned",
            "max_position_embeddings": 2048,
            "num_experts": experts,
            "num_experts_per_tok": 1,
            "moe_intermediate_size": 4 * hidden,
        },
        "cluster": {
            "device": "a100-sxm-80gb",
            "nodes": gpus // fixed("per_node"),
            "devices_per_node": fixed("per_node"),
            "scale_out": {"nics_per_node": 2, "nic_bytes_per_s": 25e9, "latency_s": "4 us"},
        },
        "serving": {
            "engine": "vllm",
            "expert_load": {"popularity": 0.0, "affinity": values["affinity"]},
            "pools": [{"plan": {"dp": gpus, "ep": gpus}, "limits": {"max_num_seqs": total}}],
            "traffic": {
                "offline": True,
                "num_requests": total,
                "input_tokens": values["prompt"],
                "output_tokens": fixed("answer"),
            },
        },
        "techniques": techniques,
    }


def throughput(values: Values) -> float:
    """Largest gain over numbers of experts."""
    rates = [
        [served(scenario(values, experts, chosen)).output_tokens_per_s for chosen in (["exflow"], [])]
        for experts in fixed("experts")
    ]
    return max(after / before for after, before in rates)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "exchanges": lambda _: EXCHANGES["exflow"] / EXCHANGES["baseline"],
        "hops": fewer_hops,
        "placement": by_placement,
        "throughput": throughput,
    }


def plot(results: list[ClaimResult]) -> Any:
    """Throughput over the number of experts."""
    values, most = central(EXPERIMENT.setting), results[-1].published

    def gain(experts: int) -> float:
        after, before = (served(scenario(values, experts, chosen)) for chosen in (["exflow"], []))
        return after.output_tokens_per_s / before.output_tokens_per_s

    series = {"ExFlow": curve(fixed("experts"), gain)}
    level = {f"published: up to {most:g}": most}
    return beside({"GPT-M": series}, "experts", "throughput over the baseline", log_x=True, levels=level)
