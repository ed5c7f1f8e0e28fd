"""Sequences cut over ranks where attention is linear: only running states pass from rank to rank.

Keys times values of a head, d x d numbers, go to the next rank whatever the sequence's length, so that a sequence may
grow with the ranks. What it costs: a message a layer that its scan waits for, and a whole sequence a group of ranks.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.models import without_linear_attention


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    return plan.model_copy(update={"cp": knobs["degree"], "cp_kind": "ring", "dp": "auto"})


TECHNIQUE = Technique(
    id="lasp",
    knobs={"degree": Knob(4, 2, 1024, "ranks of a sequence; 2 · degree divides its length")},
    edits=(("plan", "cp"),),
    applies_to=without_linear_attention,
    plan=_plan,
    saves="activations",
    resource="memory",
)
