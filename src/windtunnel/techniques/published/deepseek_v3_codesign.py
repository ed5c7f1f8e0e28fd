"""What `deepseek-v3-codesign.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.models import without_experts


def plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    return plan.model_copy(update={"expert_nodes": knobs["nodes"]})


applies_to = without_experts
