"""Mixtures larger than device memory: sharded weights in host memory, fetched ahead over layers and over ranks.

Weights and optimizer state live in host memory; a layer's weights are copied in while the layers before it run, and
gathered from the other ranks while one runs (two directions of prefetch). What it costs: copies over PCIe, gathers, an
update by the host, device memory for the layers that are fetched.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.models import without_experts


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    change = {"params": 1.0, "optimizer": knobs["optimizer"], "prefetch_layers": knobs["prefetch_layers"]}
    return plan.model_copy(update={"zero": 3, "offload": plan.offload.model_copy(update=change)})


def _applies(scenario: Scenario) -> str | None:
    return "it acts on training steps" if scenario.training is None else without_experts(scenario)


TECHNIQUE = Technique(
    id="se-moe",
    knobs={
        "prefetch_layers": Knob(3, 1, 64, "layers that have room on the device at a time"),
        "optimizer": Knob(1.0, 0.0, 1.0, "share of the optimizer's state in host memory"),
    },
    edits=(("plan", "shard"), ("plan", "offload")),
    applies_to=_applies,
    plan=_plan,
    saves="replicated state",
    resource="memory",
)
