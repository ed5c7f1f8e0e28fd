"""What `tokenring.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec


def plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    change: dict[str, Any] = {"cp_kind": "token_ring"}
    if knobs["degree"]:
        change |= {"cp": knobs["degree"], "dp": "auto"}
    return plan.model_copy(update=change)
