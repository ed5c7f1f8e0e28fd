"""Dynamic SplitFuse: forward passes of one size, decodes first, then chunks of prompts.

Switches the policy `splitfuse` on and sets the tokens of a pass. What it costs: a long prompt takes several passes, and
each of them reads all weights again; its later chunks read the cache of the earlier ones.

Source: Holmes et al. 2024, section 3; the released benchmark runs passes of 768 tokens
(DeepSpeedExamples, benchmarks/inference/mii, `max_ragged_batch_size`).
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.serving import PoolSpec, ServingSpec
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Limits, ServingPart, Technique
from windtunnel.techniques.serving import served, with_pools


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    def change(pool: PoolSpec) -> dict[str, Any]:
        limits = pool.limits.model_copy(
            update={"max_num_batched_tokens": int(knobs["budget"]), "chunked_prefill": True}
        )
        return {"policy": "splitfuse", "limits": limits}

    return with_pools(serving, change)


TECHNIQUE = Technique(
    id="fastgen-splitfuse",
    knobs={"budget": Knob(768, 16, 1 << 20, "tokens of a forward pass")},
    edits=(("run", "batching"),),
    applies_to=served,
    serving=ServingPart(settings=_settings),
    saves="passes that hold few tokens, and decode steps that wait for prompts",
    resource="waiting",
    where={"vllm": "--enable-chunked-prefill", "sglang": "--chunked-prefill-size"},
    limits=Limits(
        scenario={
            "model": "meta-llama/Llama-2-70b-hf",
            "cluster": {"device": "a100-sxm-80gb", "nodes": 1, "devices_per_node": 4},
            "serving": {
                "engine": "vllm",
                "engine_version": "0.2.1",
                "pools": [{"plan": {"tp": 4}, "limits": {"cuda_graphs": False}}],
                "traffic": {
                    "concurrency": 8,
                    "num_requests": 256,
                    "output_tokens": 60,
                    "input_tokens": {"distribution": "normal", "mean": 2600, "cv": 0.3, "max": 4000},
                },
            },
        },
        measure="e2e_s.mean",
        free={"serving": {"traffic": {"input_tokens": {"mean": 1, "max": 1}, "output_tokens": 500}}},
        vanishes=0.02,
        costly={"budget": 64},
    ),
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
