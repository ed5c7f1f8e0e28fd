"""DeepSeek-V3's routing for its network: a token's experts lie on few nodes, and travels once to each.

Switches node-limited routing on (`plan.expert_nodes`); what else the paper fits to its hardware has switches of its
own: latent attention is the model's, FP8 is `training.precision: fp8_block`, DualPipe a technique, planes of the
network its topology. What it costs: a router that may not choose freely, which shows in the model's quality alone.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.models import without_experts


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    return plan.model_copy(update={"expert_nodes": knobs["nodes"]})


TECHNIQUE = Technique(
    id="deepseek-v3-codesign",
    applies_to=without_experts,
    knobs={"nodes": Knob(4, 1, 64, "most nodes that a token's experts lie on")},
    edits=(("plan", "expert nodes"),),
    plan=_plan,
    saves="scale-out",
    quality="the router may not choose experts freely: another model",
)
