"""Step 3, expand: short forms of a plan in full, and what it leaves to the planner taken out."""

from __future__ import annotations

from typing import Any

from windtunnel.scenarios.fields import Fields
from windtunnel.specs.plan import RECOMPUTE_MODULES, Overlap

AUTO = "auto"
"""In place of a number: an axis that the planner is to choose."""
_OWN_AUTO = frozenset({"dp"})
"""Fields in which `auto` is a value of its own: devices / (tp · pp · cp)."""


def open_axes(plan: dict[str, Any]) -> tuple[str, ...]:
    """Fields of a plan that are left to the planner."""
    return tuple(name for name, value in plan.items() if value == AUTO and name not in _OWN_AUTO)


def expanded(fields: Fields) -> Fields:
    """The fields with a plan that has no short forms."""
    plan = fields.data.get("plan")
    if plan == AUTO:
        plan = fields.data["plan"] = {}
    if not isinstance(plan, dict):
        return fields
    for name in open_axes(plan):
        del plan[name]
    recompute = plan.get("recompute")
    if isinstance(recompute, list) or (isinstance(recompute, str) and recompute in RECOMPUTE_MODULES):
        modules = recompute if isinstance(recompute, list) else [recompute]
        plan["recompute"] = {"policy": "modules", "modules": modules}
    elif isinstance(recompute, str):
        plan["recompute"] = {"policy": recompute}
    if isinstance(plan.get("overlap"), bool):
        plan["overlap"] = dict.fromkeys(Overlap.model_fields, plan["overlap"])
    for name in ("vpp", "recompute", "overlap", "offload"):
        if name in plan and plan[name] is None:
            del plan[name]
    return fields
