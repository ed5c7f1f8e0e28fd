"""What `patrickstar.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.published.zero_infinity import applies


def plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    offload = plan.offload.model_copy(
        update={
            "params": knobs["params"],
            "gradients": knobs["params"],
            "optimizer": knobs["optimizer"],
            "gradients_in_place": True,
            "tier": "host",
        }
    )
    return plan.model_copy(update={"zero": 3, "offload": offload})


applies_to = applies
