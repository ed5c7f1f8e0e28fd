"""Groups of unlike sizes, chosen for every micro-batch by a mixed-integer linear programme.

The mechanism is `plan.sequence_groups: solved`. What it costs: ranks that stand empty where documents do not fill
groups.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Limits, Paper, Technique
from windtunnel.techniques.published.bytescale import CASE, FEW, FREE


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    return plan.model_copy(update={"sequence_groups": "solved"})


def _applies(scenario: Scenario) -> str | None:
    alike = scenario.training is None or scenario.training.lengths is None
    return "training.lengths is absent: all sequences are alike" if alike else None


TECHNIQUE = Technique(
    id="flexsp",
    family="long-seq",
    summary="groups of unlike sizes for each micro-batch, found by a linear programme",
    paper=Paper(
        "FlexSP: Accelerating Large Language Model Training via Flexible Sequence Parallelism",
        2024,
        "https://arxiv.org/abs/2412.01523",
        "Wang and others",
        "arXiv",
    ),
    levels=("plan",),
    status="partial",
    edits=(("plan", "sequence groups"),),
    applies_to=_applies,
    plan=_plan,
    saves="exchange of short documents",
    resource="network",
    experiment="flexsp",
    missing="time of the solver, which runs beside the step before; groups that NCCL sets up on first use",
    limits=Limits(CASE, free=FREE, vanishes=0.05, costly_scenario=FEW),
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
