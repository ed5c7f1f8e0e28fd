"""What `yuan2-nonuniform-pp.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario


def plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    update: dict[str, Any] = {"tp": 1, "dp": "auto", "sp": None, "zero": max(plan.zero, 1)}
    if knobs["uneven"] and plan.stage_layers is None and plan.pp > 1:
        update |= {"embedding_as_layer": True, "loss_as_layer": True}
    return plan.model_copy(update=update)


def applies_to(scenario: Scenario) -> str | None:
    if scenario.training is None:
        return "it acts on training steps"
    return None if scenario.plan.tp > 1 or scenario.plan.pp > 1 else "there is neither a pipeline nor a tensor axis"
