"""DualPipe: forward and backward of two flows run in pairs, so that exchanges hide behind the products of the other.

What it costs: with `copies` 2 a second copy of the parameters, one more activation than 1F1B, more bubble than ZB-V.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Limits, Technique
from windtunnel.techniques.published.zb_h1 import applies

CASE = {
    "model": "mistralai/Mixtral-8x7B-v0.1",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 8, "devices_per_node": 4},
    "training": {"seq_len": 4096, "global_batch": 192, "framework": "megatron_core"},
    "plan": {"pp": 4, "vpp": 2, "ep": 8, "mbs": 1, "schedule": "zb_v", "overlap": {"moe_a2a": False}},
}


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
    limits=Limits(
        scenario=CASE,
        free={"plan": {"pp": 1, "vpp": 1, "schedule": "1f1b"}},
        costly_scenario={"plan": {"ep": 1, "tp": 1}, "model": "gpt3-6.7b"},  # nothing to hide
    ),
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
