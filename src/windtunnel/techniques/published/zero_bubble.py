"""What `zero-bubble.yaml` changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from windtunnel import schedules
from windtunnel.schedules import ScheduleLimits
from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.base import ScheduleCase
from windtunnel.techniques.published.zb_h1 import applies

V_SHAPED = ("zb_v", "v_half", "v_min")


def plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    if plan.pp == 1:
        return plan
    return plan.model_copy(update={"schedule": knobs["order"], "vpp": 2 if knobs["order"] in V_SHAPED else 1})


def schedule(case: ScheduleCase, knobs: dict[str, Any]) -> ScheduleCase:
    if knobs["memory_limit"] is None or case.p == 1 or not schedules.describe(case.id).uses_costs:
        return case
    return replace(case, limits=ScheduleLimits(np.full(case.p, max(knobs["memory_limit"] * case.p, 1.0))))


applies_to = applies
