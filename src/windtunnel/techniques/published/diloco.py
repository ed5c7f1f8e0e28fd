"""What `diloco.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.compression import LocalSteps
from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.published.co2 import applies


def plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    """A training step or a run whose replicas exchange once a round: the time of it; its loss is not counted."""
    return plan.model_copy(update={"zero": 0, "local_steps": LocalSteps(steps=knobs["period"], momentum=True)})


applies_to = applies
