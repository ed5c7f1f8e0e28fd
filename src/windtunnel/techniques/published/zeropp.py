"""What `zeropp.yaml` changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from windtunnel.schedules import ScheduleLimits
from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.base import ScheduleCase
from windtunnel.techniques.published.zb_h1 import applies


def plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    if plan.pp == 1:
        return plan
    update: dict[str, Any] = {"schedule": "zeropp", "vpp": knobs["chunks"]}
    if knobs["shard"]:
        update |= {"zero": 3, "gather_per_block": True, "reshard_after_forward": True}
    return plan.model_copy(update=update)


def schedule(case: ScheduleCase, knobs: dict[str, Any]) -> ScheduleCase:
    if knobs["unit"] is None or case.id != "zeropp":
        return case
    return replace(case, limits=ScheduleLimits(np.full(case.p, float(knobs["unit"]))))


applies_to = applies
