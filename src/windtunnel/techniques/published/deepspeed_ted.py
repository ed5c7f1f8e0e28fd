"""What `deepspeed-ted.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques.models import without_experts


def plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    again = plan.recompute.model_copy(update={"keep_collectives": knobs["keep_collectives"]})
    tokens = "dropped" if knobs["drop_duplicates"] else "replicated"
    return plan.model_copy(update={"etp": plan.tp, "sp": False, "expert_tokens": tokens, "recompute": again})


def applies_to(scenario: Scenario) -> str | None:
    return "plan.tp is 1: no rank has another's tokens" if scenario.plan.tp == 1 else without_experts(scenario)
