"""Just one byte: a zeroth-order step whose replicas move along directions of their own and send one number each.

What it costs: every replica moves its weights along the directions of all others, one pass over memory for each.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.scenario import Scenario
from windtunnel.specs.workload import TrainingSpec
from windtunnel.techniques.base import Knob, Technique


def _workload(training: TrainingSpec, knobs: dict[str, Any]) -> TrainingSpec:
    return training.model_copy(update={"gradients": "zeroth_order", "directions": knobs["directions"]})


def applies(scenario: Scenario) -> str | None:
    """Several replicas train all weights of a dense model."""
    if scenario.training is None:
        return "there is no `training` section"
    return "there is one replica" if scenario.plan.dp == 1 and scenario.plan.cp == 1 else None


TECHNIQUE = Technique(
    id="one-byte-zo",
    algorithm="one-byte-zo",
    knobs={"directions": Knob(32, 1, 4096, "directions of a step: one a replica")},
    edits=(("plan", "gradients sent"), ("plan", "shard"), ("plan", "backward"), ("plan", "perturbations")),
    applies_to=applies,
    workload=_workload,
    saves="network",
    resource="scale-out",
    quality="steps follow a few random directions in place of a gradient: many more are needed, which is not counted",
)
