"""Attention laid out by zones of length, everything else by tokens.

The mechanism is `plan.sequence_groups: zones`. What it costs: tokens that move between ranks before and after
attention, and all ranks meet in every micro-batch.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Limits, Paper, Technique
from windtunnel.techniques.published.bytescale import CASE, FEW, FREE


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    return plan.model_copy(update={"sequence_groups": "zones"})


def _applies(scenario: Scenario) -> str | None:
    alike = scenario.training is None or scenario.training.lengths is None
    return "training.lengths is absent: all sequences are alike" if alike else None


TECHNIQUE = Technique(
    id="zeppelin",
    family="long-seq",
    summary="attention by zones of length, linear layers by tokens, tokens moved between the two",
    paper=Paper(
        "Zeppelin: Balancing Variable-length Workloads in Data Parallel Large Model Training",
        2025,
        "https://arxiv.org/abs/2509.21841",
        "Chen and others",
        "arXiv",
    ),
    levels=("plan",),
    status="partial",
    edits=(("plan", "sequence groups"),),
    applies_to=_applies,
    plan=_plan,
    saves="exchange of short documents",
    resource="network",
    experiment="zeppelin",
    missing="transfers between nodes spread over all network adapters of a node",
    limits=Limits(CASE, free=FREE, vanishes=0.05, costly_scenario=FEW),
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
