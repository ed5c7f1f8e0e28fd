"""Flover: requests that come at different times are fused into one running batch, token by token.

The mechanism is in-flight batching without a paged cache: `serving/batching/flover.py`.

Source: Yao et al. 2023, section 4.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Limits, Technique
from windtunnel.techniques.serving import ServingPart, served, with_pools


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    return with_pools(serving, lambda _: {"policy": "flover"})


TECHNIQUE = Technique(
    id="flover",
    edits=(("run", "policy"),),
    applies_to=served,
    serving=ServingPart(settings=_settings),
    saves="waiting for a batch to end",
    resource="waiting",
    limits=Limits(
        scenario={
            "model": "meta-llama/Llama-3.1-8B",
            "cluster": {"device": "a100-sxm-80gb", "nodes": 1, "devices_per_node": 1},
            "serving": {
                "engine": "trtllm",
                "pools": [{"policy": "static", "limits": {"max_num_seqs": 16, "max_model_len": 600}}],
                "traffic": {
                    "rate_per_s": 4,
                    "num_requests": 100,
                    "input_tokens": 64,
                    "output_tokens": {"distribution": "uniform", "min": 20, "max": 500},
                },
            },
        },
        measure="e2e_s.mean",
        free={"serving": {"traffic": {"process": "constant", "rate_per_s": 0.05, "num_requests": 10}}},
        vanishes=0.02,
        pays="tpot_s.p99",
    ),
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
