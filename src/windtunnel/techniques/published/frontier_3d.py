"""What `frontier-3d.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques.default_plan import zero_stage


def plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    update: dict[str, Any] = {"zero": max(plan.zero, 1)} if knobs["shard_optimizer"] else {}
    most = knobs["most_tp"]
    if plan.tp > most and plan.tp % most == 0:
        update |= {"tp": most, "pp": plan.pp * (plan.tp // most)}
    return plan.model_copy(update=update)


def applies_to(scenario: Scenario) -> str | None:
    if scenario.training is None:
        return "it acts on training steps"
    inside = scenario.plan.tp <= 8 and zero_stage(scenario) > 0
    return "tensor parallelism is inside the node and the optimizer is sharded" if inside else None
