"""Dynamic SplitFuse: forward passes of one size, decodes first, then chunks of prompts.

Switches the policy `splitfuse` on and sets the tokens of a pass. What it costs: a long prompt takes several passes, and
each of them reads all weights again; its later chunks read the cache of the earlier ones.

Source: Holmes et al. 2024, section 3; the released benchmark runs passes of 768 tokens
(DeepSpeedExamples, benchmarks/inference/mii, `max_ragged_batch_size`).
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.serving import PoolSpec, ServingSpec
from windtunnel.techniques.base import Knob, ServingPart, Technique
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
)
