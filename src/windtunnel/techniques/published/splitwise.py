"""Splitwise: some machines compute prompts, the others make tokens; caches move layer by layer while prompts run.

Splits every mixed pool of two instances or more into one of each role and switches the transfer on
(`serving/handover.py`, `serving/transfer.py`). What it costs: caches cross the network and are held twice for a while;
a machine of one kind waits while the other kind is busy.

Source: Patel et al. 2024, sections 4.1 (pools, shortest queue) and 4.3 (transfer by layer).
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Limits, Paper, ServingPart, Technique
from windtunnel.techniques.serving import served, split_pools


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    transfer = {"mode": "layers", "first_token": "prefill", "reserve_first": True}
    return split_pools(serving, float(knobs["token_share"]), transfer)


TECHNIQUE = Technique(
    id="splitwise",
    family="serving",
    summary="machines for prompts and machines for tokens; caches move layer by layer",
    paper=Paper(
        "Splitwise: Efficient Generative LLM Inference Using Phase Splitting", 2024,
        "https://arxiv.org/abs/2311.18677", "Patel, Pratyush and others",
    ),
    levels=("run",),
    knobs={"token_share": Knob(0.5, 0.01, 0.99, "of the instances, for tokens")},
    edits=(("run", "placement"),),
    applies_to=served,
    serving=ServingPart(settings=_settings),
    saves="decode steps that wait for prompts",
    experiment="splitwise",
    limits=Limits(
        scenario={
            "model": "meta-llama/Llama-2-70b-hf",
            "cluster": {"device": "a100-sxm-80gb", "nodes": 2, "devices_per_node": 8},
            "serving": {
                "engine": "vllm", "engine_version": "0.4.2", "pools": [{"replicas": 4, "plan": {"tp": 4}}],
                "traffic": {
                    "rate_per_s": 3, "num_requests": 300, "input_tokens": 1500, "output_tokens": 150, "seed": 2,
                },
            },
        },
        measure="tpot_s.mean",
        free={"serving": {"traffic": {"input_tokens": 1}}},
        vanishes=0.1,
        costly={"token_share": 0.25},
        costly_scenario={"serving": {"traffic": {"input_tokens": 100, "output_tokens": 600}}},
    ),
)  # fmt: skip

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
