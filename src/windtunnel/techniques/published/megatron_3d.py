"""Interleaved 1F1B: several model chunks per stage divide the bubble (Megatron-LM).

What it costs: `chunks` times the hops between stages and more activations alive on the first stages.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.published.zb_h1 import applies


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    if plan.pp == 1:
        return plan
    return plan.model_copy(update={"schedule": "interleaved_1f1b", "vpp": knobs["chunks"]})


TECHNIQUE = Technique(
    id="megatron-3d",
    knobs={"chunks": Knob(5, 2, 64, "model chunks per stage; pp times this must not exceed the layers")},
    edits=(("schedule", "order"),),
    applies_to=applies,
    plan=_plan,
    saves="bubble",
    where={
        "megatron_core": "--num-virtual-stages-per-pipeline-rank",
        "megatron_bridge": "model.virtual_pipeline_model_parallel_size",
        "torchtitan": "parallelism.pipeline_parallel_schedule = Interleaved1F1B",
    },
)
