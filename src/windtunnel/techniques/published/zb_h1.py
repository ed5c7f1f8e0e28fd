"""Zero-bubble pipeline with the memory of 1F1B: weight gradients fill the bubble (ZB-H1).

What it costs: backward is split, so collectives cannot hide behind the weight gradient of their own GEMM, and the
stage keeps one model chunk (no interleaving).
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques.base import Technique


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    return plan.model_copy(update={"schedule": "zb_h1", "vpp": 1}) if plan.pp > 1 else plan


def applies(scenario: Scenario) -> str | None:
    """Schedules need a pipeline."""
    if scenario.training is None:
        return "it acts on training steps"
    return None if scenario.plan.pp > 1 else "there is no pipeline, hence no bubble to fill"


TECHNIQUE = Technique(
    id="zb-h1",
    system="zero-bubble",
    family="train-parallel",
    summary="split backward into input and weight gradients and run the weight part in the pipeline's bubble",
    levels=("schedule",),
    edits=(("schedule", "order"),),
    applies_to=applies,
    plan=_plan,
    saves="bubble",
    experiment="zero_bubble",
)
