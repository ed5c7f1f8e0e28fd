"""CO2: replicas step alone for a round, and its average travels beside the next round.

What it costs: where the round began, a momentum and what travels in memory; averages that are a round old.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.compression import LocalSteps
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.compressing import EDITS


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    local = LocalSteps(steps=knobs["steps"], late=knobs["late"])
    return plan.model_copy(update={"zero": 0, "local_steps": local})


def applies(scenario: Scenario) -> str | None:
    """Several replicas train."""
    if scenario.training is None:
        return "there is no `training` section"
    return "there is one replica" if scenario.plan.dp == 1 and scenario.plan.cp == 1 else None


TECHNIQUE = Technique(
    id="co2",
    algorithm="co2",
    knobs={
        "steps": Knob(48, 1, 10_000, "local steps of a round"),
        "late": Knob(True, doc="the average is used a round later"),
    },
    edits=(*EDITS, ("plan", "shard")),
    applies_to=applies,
    plan=_plan,
    saves="network",
    resource="scale-out",
    quality="replicas drift apart for a round and averages are a round old: convergence may suffer",
)
