"""What `fuyou.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec, Recompute
from windtunnel.techniques.published.zero_infinity import applies


def plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    layers = knobs["recomputed_layers"]
    recompute = plan.recompute if layers is None else Recompute(policy="full", num_layers=layers)
    if layers == 0:
        recompute = Recompute(policy="none")
    offload = plan.offload.model_copy(
        update={
            "params": 1.0,
            "optimizer": 1.0,
            "gradients": 1.0,
            "activations": 1.0,
            "tier": "nvme",
            "params_tier": None,
            "optimizer_tier": None,
            "gradients_tier": "host",
            "activations_tier": knobs["activations"],
            "update": "beside_backward",
            "prefetch_layers": knobs["prefetch_layers"],
        }
    )
    return plan.model_copy(update={"recompute": recompute, "offload": offload})


applies_to = applies
