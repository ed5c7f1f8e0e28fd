"""What `pytorch-direct-ssdtrain.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.published.zero_infinity import applies


def plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    update = {"activations": knobs["share"], "activations_tier": "nvme", "prefetch_layers": knobs["prefetch_layers"]}
    return plan.model_copy(update={"offload": plan.offload.model_copy(update=update)})


applies_to = applies
