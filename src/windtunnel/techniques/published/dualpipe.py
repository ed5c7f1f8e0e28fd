"""What `dualpipe.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.published.zb_h1 import applies


def plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    if plan.pp == 1:
        return plan
    return plan.model_copy(update={"schedule": "dualpipe" if knobs["copies"] == 2 else "dualpipev", "vpp": 2})


applies_to = applies
