"""CXL-aware offloading: optimizer state stays in host memory, what only crosses the link goes to CXL cards, striped.

What it costs: host memory for the optimizer; copies are as fast as the cards.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.published.zero_infinity import applies as trains


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
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


TECHNIQUE = Technique(
    id="cxl-offload",
    knobs={"stripe": Knob(True, doc="spread tensors over all cards; else a card a device")},
    edits=(("plan", "offload tiers"),),
    after=("zero-infinity", "fuyou"),
    applies_to=applies,
    plan=_plan,
    saves="CXL bandwidth",
    resource="host link",
)
