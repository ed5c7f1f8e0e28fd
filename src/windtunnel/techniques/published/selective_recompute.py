"""Selective recomputation: only the attention core runs again in backward, its score matrices are not kept.

What it costs: a second forward pass of the attention core.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec, Recompute
from windtunnel.techniques.base import Technique


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    return plan.model_copy(update={"recompute": Recompute(policy="selective")})


TECHNIQUE = Technique(
    id="selective-recompute",
    system="sequence-parallelism",
    family="memory-offload",
    summary="recompute the attention core alone: most of the memory for little of the work",
    levels=("plan",),
    status="partial",
    edits=(("plan", "recompute"),),
    plan=_plan,
    saves="attention scores",
    resource="memory",
    where={
        "megatron_core": "--recompute-granularity selective --recompute-modules core_attn",
        "megatron_bridge": "model.recompute_granularity, model.recompute_modules",
        "torchtitan": "activation_checkpoint.mode = selective",
    },
    missing="the paper's headline claim is not an experiment yet",
)
