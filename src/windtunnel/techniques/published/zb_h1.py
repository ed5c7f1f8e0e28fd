"""What `zb-h1.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario


def plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    return plan.model_copy(update={"schedule": "zb_h1", "vpp": 1}) if plan.pp > 1 else plan


def applies(scenario: Scenario) -> str | None:
    """Schedules need a pipeline."""
    if scenario.training is None:
        return "it acts on training steps"
    return None if scenario.plan.pp > 1 else "there is no pipeline, hence no bubble to fill"


applies_to = applies
