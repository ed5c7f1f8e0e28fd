"""Ring attention the other way round: queries move ahead and partial outputs come back, keys and values stay.

Two flows in opposite directions use links that a ring of keys and values leaves idle, where ranks have links of their
own to one another or a port wider than one message. What it costs: queries and outputs are wider than keys and values
where heads share these (GQA), a buffer a peer, fp32 statistics.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.base import Knob, Technique


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    change: dict[str, Any] = {"cp_kind": "token_ring"}
    if knobs["degree"]:
        change |= {"cp": knobs["degree"], "dp": "auto"}
    return plan.model_copy(update=change)


TECHNIQUE = Technique(
    id="tokenring",
    knobs={"degree": Knob(0, 0, 1024, "ranks of a sequence; 0: the plan's cp")},
    edits=(("plan", "cp"),),
    plan=_plan,
    saves="scale-up",
)
