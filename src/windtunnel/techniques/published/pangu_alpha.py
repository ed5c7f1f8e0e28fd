"""What `pangu-alpha.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec, Recompute
from windtunnel.specs.scenario import Scenario


def plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    update: dict[str, Any] = {"tp": knobs["operators"], "pp": knobs["stages"], "order": ("tp", "cp", "ep", "dp", "pp")}
    if knobs["stages"] == 1:
        update["vpp"] = 1
    if knobs["optimizer"]:
        update["zero"] = max(plan.zero, 1)
    if knobs["rematerialise"] != "none":
        update["recompute"] = Recompute(policy=knobs["rematerialise"])
    return plan.model_copy(update=update)


def applies_to(scenario: Scenario) -> str | None:
    return None if scenario.training is not None else "it acts on training steps"
