"""What `ring-attention.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec


def plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    return plan.model_copy(update={"cp": knobs["degree"], "cp_kind": "ring", "dp": "auto"})
