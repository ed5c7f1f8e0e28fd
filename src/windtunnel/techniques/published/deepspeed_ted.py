"""Mixtures over tensor, expert and data ranks: tokens that tensor ranks share travel once, and are not fetched again.

Ranks that share a layer hold the same tokens. Each sends only its part to the experts and the parts are gathered there
and on return (duplicate token dropping), which trades traffic between nodes for gathers inside them; what collectives
brought stays for backward, so that recomputation repeats none (communication-aware checkpointing). What it costs: the
gathers, and memory of what is kept.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.models import without_experts

MODEL = {
    "name": "GPT 6.7B x 16 experts",
    "family": "moe",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "vocab_size": 50257,
    "num_attention_heads": 32,
    "intermediate_size": 16384,
    "gated_mlp": False,
    "hidden_act": "gelu",
    "norm": "layernorm",
    "position_embedding": "learned",
    "max_position_embeddings": 2048,
    "num_experts": 16,
    "num_experts_per_tok": 1,
    "moe_intermediate_size": 16384,
    "moe_layer_freq": 2,
}
"""The paper's model of 40 billion weights: experts in every other layer, one a token."""


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    again = plan.recompute.model_copy(update={"keep_collectives": knobs["keep_collectives"]})
    tokens = "dropped" if knobs["drop_duplicates"] else "replicated"
    return plan.model_copy(update={"etp": plan.tp, "sp": False, "expert_tokens": tokens, "recompute": again})


def _applies(scenario: Scenario) -> str | None:
    return "plan.tp is 1: no rank has another's tokens" if scenario.plan.tp == 1 else without_experts(scenario)


TECHNIQUE = Technique(
    id="deepspeed-ted",
    knobs={
        "drop_duplicates": Knob(True, doc="each tensor rank sends its part of the tokens"),
        "keep_collectives": Knob(True, doc="results of collectives stay for backward under full recomputation"),
    },
    edits=(("plan", "sp"), ("plan", "experts")),
    applies_to=_applies,
    plan=_plan,
    saves="network",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
