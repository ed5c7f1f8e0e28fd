"""Zero-bubble pipeline with two chunks per stage in a V (ZB-V): every stage holds what 1F1B's first one holds.

What it costs: twice the hops between stages, the split backward, and exactly two chunks per stage.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.base import Technique
from windtunnel.techniques.published.zb_h1 import applies


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    return plan.model_copy(update={"schedule": "zb_v", "vpp": 2}) if plan.pp > 1 else plan


TECHNIQUE = Technique(
    id="zb-v",
    system="zero-bubble",
    family="train-parallel",
    summary="two chunks per stage in a V, weight gradients in the bubble, activations even over stages",
    levels=("schedule",),
    edits=(("schedule", "order"),),
    applies_to=applies,
    plan=_plan,
    saves="bubble",
    where={"torchtitan": "parallelism.pipeline_parallel_schedule = ZBVZeroBubble"},
    experiment="zero_bubble",
)
