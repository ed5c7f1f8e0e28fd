"""What `deep-optimizer-states.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.published.zero_infinity import applies


def plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    update = {"update_on_device": knobs["share"], "update_subgroup": knobs["subgroup"], "widening": "none"}
    away = plan.offload
    if not away.optimizer:
        update["optimizer"] = 1.0
    return plan.model_copy(update={"offload": away.model_copy(update=update)})


applies_to = applies
