"""Tokens go from expert to expert without returning, and experts lie where their tokens go next.

Every rank keeps the context of all sequences, so that one all-to-all a layer is enough; an integer programme places the
experts of neighbouring layers so that most tokens stay on their rank or node. What it costs: caches of all sequences on
every rank, new keys and values gathered by all of them once an iteration, ranks with less even loads.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.scenario import Scenario
from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Limits, ServingPart, Technique
from windtunnel.techniques.limits import FREE, merged
from windtunnel.techniques.serving import served, with_expert_load

MODEL = {
    "name": "GPT-M with 64 experts",
    "family": "moe",
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "vocab_size": 50257,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
    "gated_mlp": False,
    "hidden_act": "gelu",
    "norm": "layernorm",
    "position_embedding": "learned",
    "max_position_embeddings": 2048,
    "num_experts": 64,
    "num_experts_per_tok": 1,
    "moe_intermediate_size": 4096,
}
"""A model of the paper's kind: GPT-2 medium with one of 64 experts in every layer."""


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    change = {"coherent": True, "placement": "affinity" if knobs["place"] else "number"}
    return with_expert_load(serving, change)


def _applies(scenario: Scenario) -> str | None:
    reason = served(scenario)
    if reason or scenario.serving is None:
        return reason
    load = scenario.serving.expert_load
    return (
        None if load and not load.eplb else "serving.expert_load must say how experts follow one another, without eplb"
    )


TECHNIQUE = Technique(
    id="exflow",
    knobs={"place": Knob(True, doc="place experts by affinity; else by their number")},
    edits=(("run", "experts"),),
    applies_to=_applies,
    serving=ServingPart(settings=_settings),
    saves="expert exchange",
    resource="network",
    limits=Limits(
        scenario={
            "model": MODEL,
            "cluster": {
                "device": "a100-sxm-80gb",
                "nodes": 4,
                "devices_per_node": 4,
                "scale_out": {"nics_per_node": 2, "nic_bytes_per_s": 25e9, "latency_s": "4 us"},
            },
            "serving": {
                "engine": "vllm",
                "expert_load": {"popularity": 0.0, "affinity": 2.0},
                "pools": [{"plan": {"dp": 16, "ep": 16}, "limits": {"max_num_seqs": 32}}],
                "traffic": {"offline": True, "num_requests": 64, "input_tokens": 32, "output_tokens": 256},
            },
        },
        measure="output_tokens_per_s",
        larger=True,
        free=merged(
            merged(FREE["scale-up"], FREE["scale-out"]),
            {
                "serving": {
                    "expert_load": {"affinity": 0.0},
                    "pools": [
                        {"plan": {"tp": 16, "ep": 1}, "limits": {"max_num_seqs": 32}},
                    ],
                }
            },
        ),
        # many tokens an iteration: their keys and values go to all ranks
        costly_scenario={
            "serving": {
                "pools": [{"plan": {"dp": 16, "ep": 16}, "limits": {"max_num_seqs": 4096}}],
                "traffic": {"num_requests": 4096, "input_tokens": 1024, "output_tokens": 16},
            }
        },
    ),
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
