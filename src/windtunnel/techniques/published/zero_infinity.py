"""What `zero-infinity.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario


def shares(knobs: dict[str, Any]) -> dict[str, Any]:
    """Fields of `plan.offload` from knobs that name a tier for each class of tensors."""
    out: dict[str, Any] = {}
    for name in ("params", "gradients", "optimizer", "activations"):
        tier = knobs[name]
        out |= {name: 0.0 if tier == "device" else 1.0, f"{name}_tier": None if tier == "device" else tier}
    return out


def plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    offload = plan.offload.model_copy(
        update=shares(knobs)
        | {
            "prefetch_layers": knobs["prefetch_layers"],
            "pinned_bytes": knobs["pinned_gb"] * 1e9,
            "update": "pipelined" if knobs["pipelined"] else "in_turn",
        }
    )
    return plan.model_copy(update={"zero": 3, "offload": offload})


def applies(scenario: Scenario) -> str | None:
    """It acts on training."""
    return "it acts on training steps" if scenario.training is None else None


applies_to = applies
