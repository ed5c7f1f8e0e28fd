"""What `zero.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario


def plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    return plan.model_copy(update={"zero": knobs["stage"]})


def applies(scenario: Scenario) -> str | None:
    """Sharding needs replicas."""
    if scenario.training is None:
        return "it acts on training steps"
    return "there is one replica" if scenario.plan.dp == 1 and scenario.plan.cp == 1 else None


applies_to = applies
