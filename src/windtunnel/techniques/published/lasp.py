"""What `lasp.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.models import without_linear_attention


def plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    return plan.model_copy(update={"cp": knobs["degree"], "cp_kind": "ring", "dp": "auto"})


applies_to = without_linear_attention
