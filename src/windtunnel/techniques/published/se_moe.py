"""What `se-moe.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques.models import without_experts


def plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    change = {"params": 1.0, "optimizer": knobs["optimizer"], "prefetch_layers": knobs["prefetch_layers"]}
    return plan.model_copy(update={"zero": 3, "offload": plan.offload.model_copy(update=change)})


def applies_to(scenario: Scenario) -> str | None:
    return "it acts on training steps" if scenario.training is None else without_experts(scenario)
