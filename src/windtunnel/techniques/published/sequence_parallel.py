"""What `sequence-parallel.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario


def plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    return plan.model_copy(update={"sp": True})


def applies_to(scenario: Scenario) -> str | None:
    return None if scenario.plan.tp > 1 else "there is no tensor parallelism"
