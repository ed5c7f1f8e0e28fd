"""Sequences cut over ranks where attention is linear: only running states pass from rank to rank.

Keys times values of a head, d x d numbers, go to the next rank whatever the sequence's length, so that a sequence may
grow with the ranks. What it costs: a message a layer that its scan waits for, and a whole sequence a group of ranks.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Limits, Technique
from windtunnel.techniques.models import without_linear_attention

TNL_1B = {
    "name": "TransNormerLLM 1B",
    "family": "linear_attention",
    "hidden_size": 2048,
    "num_hidden_layers": 16,
    "vocab_size": 64000,
    "num_attention_heads": 16,
    "intermediate_size": 5632,
    "linear_attention_kind": "decayed",
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 16,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "full_attention_interval": 1000000,
    "position_embedding": "none",
}
"""A model of the paper's kind: every layer's attention is linear. Source: arXiv 2307.14995 (sizes)."""


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    return plan.model_copy(update={"cp": knobs["degree"], "cp_kind": "ring", "dp": "auto"})


TECHNIQUE = Technique(
    id="lasp",
    knobs={"degree": Knob(4, 2, 1024, "ranks of a sequence; 2 · degree divides its length")},
    edits=(("plan", "cp"),),
    applies_to=without_linear_attention,
    plan=_plan,
    saves="activations",
    resource="memory",
    limits=Limits(
        scenario={
            "model": TNL_1B,
            "cluster": {"device": "a100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
            "training": {"seq_len": 32768, "global_batch": 8, "framework": "megatron_core"},
            "plan": {"mbs": 1},
        },
        measure="peak_memory_allocated_bytes",
        free={"training": {"seq_len": 128}},
        pays="step_time_s",
    ),
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
