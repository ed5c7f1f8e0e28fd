"""DistZO2: both passes of a zeroth-order step side by side, weights streamed from the host slice by slice and gathered.

What it costs: devices, and a gather over the fast links for every layer.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.workload import TrainingSpec
from windtunnel.techniques.base import Knob, Technique


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    offload = plan.offload.model_copy(update={"params": 1.0, "prefetch_layers": knobs["prefetch_layers"]})
    return plan.model_copy(update={"zero": 3 if knobs["slices"] else 0, "offload": offload})


def _workload(training: TrainingSpec, knobs: dict[str, Any]) -> TrainingSpec:
    return training.model_copy(update={"perturbations_apart": knobs["apart"]})


def applies(scenario: Scenario) -> str | None:
    """It acts on steps of zeroth order with several replicas."""
    if scenario.training is None or scenario.training.gradients != "zeroth_order":
        return "training.gradients is not zeroth_order"
    return "there is one replica" if scenario.plan.dp == 1 else None


TECHNIQUE = Technique(
    id="distzo2",
    knobs={
        "slices": Knob(True, doc="each device pulls its part of a layer over its own link"),
        "apart": Knob(True, doc="the two passes run on two replicas, which share their sequences"),
        "prefetch_layers": Knob(2, 1, 64, "layers with room on the device: 2 is one ahead"),
    },
    edits=(("plan", "shard"), ("plan", "offload"), ("plan", "perturbations")),
    applies_to=applies,
    plan=_plan,
    workload=_workload,
    saves="host link",
    resource="host link",
)
