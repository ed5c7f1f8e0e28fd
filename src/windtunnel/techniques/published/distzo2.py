"""What `distzo2.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.workload import TrainingSpec


def plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    offload = plan.offload.model_copy(update={"params": 1.0, "prefetch_layers": knobs["prefetch_layers"]})
    return plan.model_copy(update={"zero": 3 if knobs["slices"] else 0, "offload": offload})


def workload(training: TrainingSpec, knobs: dict[str, Any]) -> TrainingSpec:
    return training.model_copy(update={"perturbations_apart": knobs["apart"]})


def applies(scenario: Scenario) -> str | None:
    """It acts on steps of zeroth order with several replicas."""
    if scenario.training is None or scenario.training.gradients != "zeroth_order":
        return "training.gradients is not zeroth_order"
    return "there is one replica" if scenario.plan.dp == 1 else None


applies_to = applies
