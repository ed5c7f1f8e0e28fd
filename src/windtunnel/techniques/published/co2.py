"""What `co2.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.compression import LocalSteps
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario


def plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    local = LocalSteps(steps=knobs["steps"], late=knobs["late"])
    return plan.model_copy(update={"zero": 0, "local_steps": local})


def applies(scenario: Scenario) -> str | None:
    """Several replicas train."""
    if scenario.training is None:
        return "there is no `training` section"
    return "there is one replica" if scenario.plan.dp == 1 and scenario.plan.cp == 1 else None


applies_to = applies
