"""Zero bubble: backward split in two, weight gradients in the bubble, under a memory limit (all the orders).

What it costs: the split backward, one or two model chunks per stage instead of more, and with a relaxed limit memory.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from windtunnel import schedules
from windtunnel.schedules import ScheduleLimits
from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.base import Knob, ScheduleCase, Technique
from windtunnel.techniques.published.zb_h1 import applies

ORDERS = ("zb_h1", "zb_h2", "zb_1p", "zb_2p", "zb_v", "v_half", "v_min")
V_SHAPED = ("zb_v", "v_half", "v_min")


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    if plan.pp == 1:
        return plan
    return plan.model_copy(update={"schedule": knobs["order"], "vpp": 2 if knobs["order"] in V_SHAPED else 1})


def _schedule(case: ScheduleCase, knobs: dict[str, Any]) -> ScheduleCase:
    if knobs["memory_limit"] is None or case.p == 1 or not schedules.describe(case.id).uses_costs:
        return case
    return replace(case, limits=ScheduleLimits(np.full(case.p, max(knobs["memory_limit"] * case.p, 1.0))))


TECHNIQUE = Technique(
    id="zero-bubble",
    knobs={
        "order": Knob("zb_2p", choices=ORDERS, doc="schedule; the last two are of the authors' later paper"),
        "memory_limit": Knob(
            None, 0.25, 8.0, "activations a stage may hold, in those of 1F1B's first stage; arranged orders only"
        ),
    },
    edits=(("schedule", "order"),),
    applies_to=applies,
    plan=_plan,
    schedule=_schedule,
    saves="bubble",
    where={"torchtitan": "pipeline_parallel_schedule ZBVZeroBubble", "megatron_core": "sail-sg's fork"},
)
