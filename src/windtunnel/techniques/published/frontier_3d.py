"""Frontier's 3D recipe: tensor parallelism stays on the fast tiers of a node, the rest goes to stages and replicas.

What it costs: a pipeline's bubble and hops where tensor-parallel ranks were, fewer ranks that share a layer's memory.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques.base import Knob, Technique


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    update: dict[str, Any] = {"zero": max(plan.zero, 1)} if knobs["shard_optimizer"] else {}
    most = knobs["most_tp"]
    if plan.tp > most and plan.tp % most == 0:
        update |= {"tp": most, "pp": plan.pp * (plan.tp // most)}
    return plan.model_copy(update=update)


def _applies(scenario: Scenario) -> str | None:
    if scenario.training is None:
        return "it acts on training steps"
    inside = scenario.plan.tp <= 8 and scenario.plan.zero > 0
    return "tensor parallelism is inside the node and the optimizer is sharded" if inside else None


TECHNIQUE = Technique(
    id="frontier-3d",
    knobs={
        "most_tp": Knob(8, 1, 1024, "tensor-parallel ranks that the fast tiers hold"),
        "shard_optimizer": Knob(True, doc="ZeRO-1 over the replicas"),
    },
    edits=(("plan", "layout"), ("plan", "experts")),
    applies_to=_applies,
    plan=_plan,
    saves="scale-out",
    where={"megatron_deepspeed": "--tensor-model-parallel-size, --pipeline-model-parallel-size, zero stage 1"},
)
