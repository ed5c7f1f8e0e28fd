"""What `zb-v.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.published.zb_h1 import applies


def plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    return plan.model_copy(update={"schedule": "zb_v", "vpp": 2}) if plan.pp > 1 else plan


applies_to = applies
