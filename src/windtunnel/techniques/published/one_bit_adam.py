"""What `one-bit-adam.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.compression import GradientCompression
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.run_phases import RunPhase
from windtunnel.techniques.compressing import LIMITS, applies, with_gradients


def plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    given = GradientCompression(bits=knobs["bits"], block=None, error_feedback=True, between=knobs["between"])
    return with_gradients(plan, given)


def run(phases: tuple[RunPhase, ...], knobs: dict[str, Any]) -> tuple[RunPhase, ...]:
    if not knobs["warm_up"]:
        return phases
    return (*phases, RunPhase(name="warm-up", share=knobs["warm_up"], without=("one-bit-adam",)))


applies_to = applies
limits = LIMITS
