"""What `gspmd.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario


def plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    update: dict[str, Any] = {"tp": knobs["model"], "sp": knobs["model"] > 1, "dp": "auto"}
    if knobs["shard_weights"]:
        update |= {"zero": 3, "shard_group": None}
    if knobs["stages"] > 1:
        over = plan.overlap.model_copy(update={"p2p": False})
        rounds = knobs["rounds"]
        schedule = "breadth_first" if rounds > 1 else "gpipe"
        update |= {"pp": knobs["stages"], "vpp": rounds, "schedule": schedule, "overlap": over}
    return plan.model_copy(update=update)


def applies_to(scenario: Scenario) -> str | None:
    return None if scenario.training is not None else "it acts on training steps"
