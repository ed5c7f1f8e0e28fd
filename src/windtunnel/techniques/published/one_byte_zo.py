"""What `one-byte-zo.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.scenario import Scenario
from windtunnel.specs.workload import TrainingSpec


def workload(training: TrainingSpec, knobs: dict[str, Any]) -> TrainingSpec:
    return training.model_copy(update={"gradients": "zeroth_order", "directions": knobs["directions"]})


def applies(scenario: Scenario) -> str | None:
    """Several replicas train all weights of a dense model."""
    if scenario.training is None:
        return "there is no `training` section"
    return "there is one replica" if scenario.plan.dp == 1 and scenario.plan.cp == 1 else None


applies_to = applies
