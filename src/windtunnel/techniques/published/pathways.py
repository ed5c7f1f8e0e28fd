"""What `pathways.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.scenario import Scenario
from windtunnel.specs.workload import Controller, TrainingSpec


def workload(training: TrainingSpec, knobs: dict[str, Any]) -> TrainingSpec:
    given = training.controller or Controller()
    update: dict[str, Any] = {"ahead": knobs["ahead"]}
    update |= {name: knobs[name] for name in ("dispatch_s", "latency_s") if knobs[name] is not None}
    return training.model_copy(update={"controller": given.model_copy(update=update)})


def applies_to(scenario: Scenario) -> str | None:
    if scenario.training is None:
        return "it acts on training steps"
    return None if scenario.training.controller else "every host launches its own work (no training.controller)"
