"""DualPipe: forward and backward of two flows run in pairs, so that exchanges hide behind the products of the other.

What it costs: with `copies` 2 a second copy of the parameters, one more activation than 1F1B, more bubble than ZB-V.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.published.zb_h1 import applies


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    if plan.pp == 1:
        return plan
    return plan.model_copy(update={"schedule": "dualpipe" if knobs["copies"] == 2 else "dualpipev", "vpp": 2})


TECHNIQUE = Technique(
    id="dualpipe",
    system="deepseek-v3",
    family="train-parallel",
    summary="pairs of a forward and a backward: expert, tensor and context exchanges behind the other's products",
    levels=("schedule",),
    status="partial",
    knobs={"copies": Knob(1, choices=(1, 2), doc="1: DualPipeV, two chunks in a V; 2: one copy from each end")},
    edits=(("schedule", "order"),),
    applies_to=applies,
    plan=_plan,
    saves="exchanges",
    resource="scale-out",
    where={"torchtitan": "pipeline_parallel_schedule DualPipeV"},
    experiment="dualpipe",
    missing="which SMs go to which pass is not tuned, kernels of the two take turns",
)
