"""What `mics.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.published.zero import applies


def plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    return plan.model_copy(update={"zero": 3, "shard_group": knobs["group"]})


applies_to = applies
