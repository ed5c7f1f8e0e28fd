"""Zero-bubble pipeline with the memory of 1F1B: weight gradients fill the bubble (ZB-H1)."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Paper, Technique


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    return plan.model_copy(update={"schedule": "zb_h1", "vpp": 1})


def _applies(scenario: Scenario) -> str | None:
    if scenario.training is None:
        return "it acts on training steps"
    return None if scenario.plan.pp > 1 else "there is no pipeline, hence no bubble to fill"


TECHNIQUE = Technique(
    id="zb-h1",
    family="train-parallel",
    summary="split backward into input and weight gradients and run the weight part in the pipeline's bubble",
    paper=Paper("Zero Bubble Pipeline Parallelism", 2023, "https://arxiv.org/abs/2401.10241", "Qi, Wan, Huang, Lin", "ICLR 2024"),
    levels=("schedule",),
    edits=(("schedule", "order"),),
    applies_to=_applies,
    plan=_plan,
    saves="bubble",
)  # fmt: skip

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
