"""What `cxl-offload.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques.published.zero_infinity import applies as trains


def plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    away = plan.offload.model_copy(
        update={
            "optimizer_tier": "host",
            "params_tier": "cxl",
            "activations_tier": "cxl",
            "gradients_tier": "cxl",
            "stripe": knobs["stripe"],
        }
    )
    return plan.model_copy(update={"offload": away})


def applies(scenario: Scenario) -> str | None:
    """There must be cards, and something that may lie on them."""
    return trains(scenario) or (None if scenario.plan.offload.any else "nothing is offloaded")


applies_to = applies
