"""Mixtures over tensor, expert and data ranks: tokens that tensor ranks share travel once, and are not fetched again.

Ranks that share a layer hold the same tokens. Each sends only its part to the experts and the parts are gathered there
and on return (duplicate token dropping), which trades traffic between nodes for gathers inside them; what collectives
brought stays for backward, so that recomputation repeats none (communication-aware checkpointing). What it costs: the
gathers, and memory of what is kept.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.models import without_experts


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    again = plan.recompute.model_copy(update={"keep_collectives": knobs["keep_collectives"]})
    tokens = "dropped" if knobs["drop_duplicates"] else "replicated"
    return plan.model_copy(update={"etp": plan.tp, "sp": False, "expert_tokens": tokens, "recompute": again})


def _applies(scenario: Scenario) -> str | None:
    return "plan.tp is 1: no rank has another's tokens" if scenario.plan.tp == 1 else without_experts(scenario)


TECHNIQUE = Technique(
    id="deepspeed-ted",
    knobs={
        "drop_duplicates": Knob(True, doc="each tensor rank sends its part of the tokens"),
        "keep_collectives": Knob(True, doc="results of collectives stay for backward under full recomputation"),
    },
    edits=(("plan", "sp"), ("plan", "experts")),
    applies_to=_applies,
    plan=_plan,
    saves="network",
)
