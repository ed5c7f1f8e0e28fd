"""Sequences cut over ranks: keys and values go round a ring beside attention.

What it costs: keys and values travel round the context ranks; shorter attention kernels and merges of partial results.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.base import Knob, Technique


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    return plan.model_copy(update={"cp": knobs["degree"], "cp_kind": "ring", "dp": "auto"})


TECHNIQUE = Technique(
    id="ring-attention",
    knobs={"degree": Knob(4, 2, 1024, "ranks of a sequence; 2 · degree divides its length")},
    edits=(("plan", "cp"),),
    plan=_plan,
    saves="activations",
    resource="memory",
    where={
        "megatron_core": "--context-parallel-size with --cp-comm-type p2p",
        "megatron_bridge": "model.context_parallel_size",
        "torchtitan": "parallelism.context_parallel_degree",
    },
)
