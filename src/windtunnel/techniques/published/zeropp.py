"""ZeroPP: pipeline and fully sharded data parallelism without tensor parallelism, in units of micro-batches.

Inside a unit forwards, backwards and weight gradients are interleaved so that stages do not wait; sharded parameters
are gathered once a chunk and unit. What it costs: the activations of a unit, two gathered chunks, hops between chunks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from windtunnel.schedules import ScheduleLimits
from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.base import Knob, ScheduleCase, Technique
from windtunnel.techniques.published.zb_h1 import applies


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    if plan.pp == 1:
        return plan
    update: dict[str, Any] = {"schedule": "zeropp", "vpp": knobs["chunks"]}
    if knobs["shard"]:
        update |= {"zero": 3, "gather_per_block": True, "reshard_after_forward": True}
    return plan.model_copy(update=update)


def _schedule(case: ScheduleCase, knobs: dict[str, Any]) -> ScheduleCase:
    if knobs["unit"] is None or case.id != "zeropp":
        return case
    return replace(case, limits=ScheduleLimits(np.full(case.p, float(knobs["unit"]))))


TECHNIQUE = Technique(
    id="zeropp",
    knobs={
        "unit": Knob(None, 1, 4096, "micro-batches of a scheduling unit; absent: at least 2 pp - 1"),
        "chunks": Knob(2, 1, 64, "model chunks per stage; pp times this must not exceed the layers"),
        "shard": Knob(True, doc="shard parameters over the replicas (FSDP) and gather them once a block"),
    },
    edits=(("schedule", "order"), ("plan", "shard")),
    applies_to=applies,
    plan=_plan,
    schedule=_schedule,
    saves="bubble",
)
