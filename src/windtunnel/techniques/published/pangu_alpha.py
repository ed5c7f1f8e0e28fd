"""PanGu-α: five axes in one plan: data, operators, stages, optimizer state and rematerialisation.

Operators are split inside a server, stages and replicas across servers. What it costs: forwards that run again, the
pipeline's bubble.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec, Recompute
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques.base import Knob, Technique


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    update: dict[str, Any] = {"tp": knobs["operators"], "pp": knobs["stages"], "order": ("tp", "cp", "ep", "dp", "pp")}
    if knobs["stages"] == 1:
        update["vpp"] = 1
    if knobs["optimizer"]:
        update["zero"] = max(plan.zero, 1)
    if knobs["rematerialise"] != "none":
        update["recompute"] = Recompute(policy=knobs["rematerialise"])
    return plan.model_copy(update=update)


def _applies(scenario: Scenario) -> str | None:
    return None if scenario.training is not None else "it acts on training steps"


TECHNIQUE = Technique(
    id="pangu-alpha",
    knobs={
        "operators": Knob(8, 1, 1024, "ranks that split one operator (tp), neighbours in a server"),
        "stages": Knob(4, 1, 256, "pipeline stages, across servers"),
        "optimizer": Knob(True, doc="optimizer state sharded over replicas (ZeRO-1)"),
        "rematerialise": Knob("full", choices=("none", "selective", "full"), doc="what runs again in backward"),
    },
    edits=(("plan", "layout"), ("plan", "experts"), ("plan", "recompute")),
    applies_to=_applies,
    plan=_plan,
    saves="memory",
)
