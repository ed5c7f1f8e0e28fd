"""1-bit Adam after its warm-up: the variance stands still, and momentum travels as signs with a scale a tensor.

What it costs: an exchange in two halves among all ranks, memory for what both halves lost. Steps of the warm-up are
those of plain Adam.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.compression import GradientCompression
from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Limits, Paper, Technique
from windtunnel.techniques.compressing import EDITS, ETHERNET, FEW_BYTES, QUALITY, applies, with_gradients
from windtunnel.techniques.limits import FREE


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    given = GradientCompression(bits=knobs["bits"], block=None, error_feedback=True, between=knobs["between"])
    return with_gradients(plan, given)


TECHNIQUE = Technique(
    id="one-bit-adam",
    family="compression",
    summary="momentum in one bit with error feedback, in two halves, once the variance stands still",
    paper=Paper(
        "1-bit Adam: Communication Efficient Large-Scale Training with Adam's Convergence Speed",
        2021,
        "https://arxiv.org/abs/2102.02888",
        "Tang and others",
        "ICML 2021",
    ),
    levels=("plan",),
    knobs={
        "bits": Knob(1, 1, 8, "of one value of the momentum"),
        "between": Knob("ranks", doc="who exchanges compressed momentum", choices=("ranks", "nodes", "levels")),
    },
    edits=EDITS,
    applies_to=applies,
    plan=_plan,
    saves="network",
    resource="scale-out",
    quality=QUALITY,
    where={"deepspeed": "optimizer.type OneBitAdam (freeze_step)"},
    experiment="one_bit_adam",
    limits=Limits(
        ETHERNET,
        free=FEW_BYTES,
        vanishes=0.02,
        costly_scenario=FREE["network"],
    ),
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
