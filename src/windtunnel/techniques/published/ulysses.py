"""Sequences cut over ranks: attention heads are exchanged for tokens by all-to-all.

What it costs: an all-to-all before attention and one after it, which nothing hides; the degree is limited by the heads.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.base import Knob, Technique


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    return plan.model_copy(update={"cp": knobs["degree"], "cp_kind": "all_to_all", "dp": "auto"})


TECHNIQUE = Technique(
    id="ulysses",
    knobs={"degree": Knob(4, 2, 1024, "ranks of a sequence; 2 · degree divides its length")},
    edits=(("plan", "cp"),),
    plan=_plan,
    saves="activations",
    resource="memory",
    where={"megatron_core": "--context-parallel-size with --cp-comm-type a2a", "deepspeed": "sequence_parallel_size"},
)
