"""Breadth-first pipeline: all micro-batches pass one model chunk before the next chunk starts.

What it costs: the activations of every micro-batch are alive at the turn, and hops multiply as with interleaving.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.published.zb_h1 import applies


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    if plan.pp == 1:
        return plan
    return plan.model_copy(update={"schedule": "breadth_first", "vpp": knobs["chunks"]})


TECHNIQUE = Technique(
    id="breadth-first",
    knobs={"chunks": Knob(5, 2, 64, "model chunks per stage; pp times this must not exceed the layers")},
    edits=(("schedule", "order"),),
    applies_to=applies,
    plan=_plan,
    saves="bubble",
    where={"torchtitan": "parallelism.pipeline_parallel_schedule = LoopedBFS"},
)
