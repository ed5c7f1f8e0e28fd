"""Deep Optimizer States: some groups of optimizer state are updated on the host, others come to the idle device.

What it costs: state crosses the link both ways; where the link is slow, or the host's memory is what both need, the
host alone is faster.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.published.zero_infinity import applies


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    update = {"update_on_device": knobs["share"], "update_subgroup": knobs["subgroup"], "widening": "none"}
    away = plan.offload
    if not away.optimizer:
        update["optimizer"] = 1.0
    return plan.model_copy(update={"offload": away.model_copy(update=update)})


TECHNIQUE = Technique(
    id="deep-optimizer-states",
    knobs={
        "share": Knob(0.5, 0.0, 1.0, "of groups that the device updates: 1 / stride"),
        "subgroup": Knob(100_000_000, 1_000_000, 2_000_000_000, "parameters of a group"),
    },
    edits=(("plan", "update"),),
    after=("zero-infinity",),
    applies_to=applies,
    plan=_plan,
    saves="host update",
    resource="host",
)
