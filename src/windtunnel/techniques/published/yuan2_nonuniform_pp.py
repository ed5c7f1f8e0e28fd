"""Yuan 2.0: stages of unequal layers and a sharded optimizer instead of tensor parallelism.

The stages at both ends hold fewer layers, since embedding and loss count. What it costs: memory, since layers are whole
on every rank, and gradients of whole layers between replicas.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques.base import Knob, Technique


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    update: dict[str, Any] = {"tp": 1, "dp": "auto", "sp": None, "zero": max(plan.zero, 1)}
    if knobs["uneven"] and plan.stage_layers is None and plan.pp > 1:
        update |= {"embedding_as_layer": True, "loss_as_layer": True}
    return plan.model_copy(update=update)


def _applies(scenario: Scenario) -> str | None:
    if scenario.training is None:
        return "it acts on training steps"
    return None if scenario.plan.tp > 1 or scenario.plan.pp > 1 else "there is neither a pipeline nor a tensor axis"


TECHNIQUE = Technique(
    id="yuan2-nonuniform-pp",
    knobs={"uneven": Knob(True, doc="embedding and loss count as a layer each when layers are split over stages")},
    edits=(("plan", "layout"), ("plan", "experts")),
    applies_to=_applies,
    plan=_plan,
    saves="scale-up",
    where={"megatron_core": "--account-for-embedding-in-pipeline-split, --account-for-loss-in-pipeline-split"},
)
