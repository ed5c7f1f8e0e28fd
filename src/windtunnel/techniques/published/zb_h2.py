"""Zero-bubble pipeline that keeps more micro-batches in flight (ZB-H2): about twice the activations of 1F1B.

What it costs: activation memory, the split backward, and no interleaving.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.base import Technique
from windtunnel.techniques.published.zb_h1 import applies


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    return plan.model_copy(update={"schedule": "zb_h2", "vpp": 1}) if plan.pp > 1 else plan


TECHNIQUE = Technique(
    id="zb-h2",
    system="zero-bubble",
    family="train-parallel",
    summary="fill the whole bubble with weight gradients, at about twice the activation memory",
    levels=("schedule",),
    edits=(("schedule", "order"),),
    applies_to=applies,
    plan=_plan,
    saves="bubble",
    experiment="zero_bubble",
)
