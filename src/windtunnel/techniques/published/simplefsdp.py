"""What `simplefsdp.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.workload import TrainingSpec
from windtunnel.techniques.published.zero import applies


def plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    return plan.model_copy(update={"zero": 3, "gathered_layers": knobs["gathered_layers"]})


def workload(training: TrainingSpec, knobs: dict[str, Any]) -> TrainingSpec:
    return training.model_copy(update={"compile": True})


applies_to = applies
