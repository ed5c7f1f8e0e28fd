"""SSDTrain: activations leave for drives during forward and are read ahead of backward.

What it costs: bandwidth of drives; what their writes or reads cannot follow delays the step.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.published.zero_infinity import applies


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    update = {"activations": knobs["share"], "activations_tier": "nvme", "prefetch_layers": knobs["prefetch_layers"]}
    return plan.model_copy(update={"offload": plan.offload.model_copy(update=update)})


TECHNIQUE = Technique(
    id="pytorch-direct-ssdtrain",
    knobs={
        "share": Knob(1.0, 0.0, 1.0, "of activations that leave"),
        "prefetch_layers": Knob(2, 1, 64, "layers with room on the device: 2 is one ahead"),
    },
    edits=(("plan", "activations"),),
    after=("zero-infinity", "fuyou", "cxl-offload"),
    applies_to=applies,
    plan=_plan,
    saves="device memory",
    resource="memory",
)
