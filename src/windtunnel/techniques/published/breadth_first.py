"""What `breadth-first.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.published.zb_h1 import applies


def plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    if plan.pp == 1:
        return plan
    return plan.model_copy(update={"schedule": "breadth_first", "vpp": knobs["chunks"]})


applies_to = applies
