"""1-bit Adam: after a warm-up the variance stands still, and momentum travels as signs with a scale a tensor.

What it costs: an exchange in two halves among all ranks, memory for what both halves lost, and a warm-up that gains
nothing.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.compression import GradientCompression
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.run_phases import RunPhase
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.compressing import EDITS, LIMITS, QUALITY, applies, with_gradients


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    given = GradientCompression(bits=knobs["bits"], block=None, error_feedback=True, between=knobs["between"])
    return with_gradients(plan, given)


def _run(phases: tuple[RunPhase, ...], knobs: dict[str, Any]) -> tuple[RunPhase, ...]:
    if not knobs["warm_up"]:
        return phases
    return (*phases, RunPhase(name="warm-up", share=knobs["warm_up"], without=("one-bit-adam",)))


TECHNIQUE = Technique(
    id="one-bit-adam",
    algorithm="one-bit-adam",
    knobs={
        "bits": Knob(1, 1, 8, "of one value of the momentum"),
        "warm_up": Knob(0.15, 0.0, 0.9, "share of the steps that are plain Adam's (paper, section 4: 15 to 20 %)"),
        "between": Knob("ranks", doc="who exchanges compressed momentum", choices=("ranks", "nodes", "levels")),
    },
    edits=EDITS,
    applies_to=applies,
    plan=_plan,
    run=_run,
    saves="network",
    resource="scale-out",
    quality=QUALITY,
    where={"deepspeed": "optimizer.type OneBitAdam (freeze_step)"},
    limits=LIMITS,
)
