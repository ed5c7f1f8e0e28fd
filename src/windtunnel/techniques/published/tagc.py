"""TAGC: the largest gradients of the widest layers in a sketch, which reductions can add.

What it costs: a search for the threshold, a map of positions that all ranks add, passes that tell entries apart.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.compression import GradientCompression
from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.compressing import EDITS, LIMITS, QUALITY, applies, with_gradients


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    given = GradientCompression(
        kind="sketch",
        density=knobs["density"],
        cells=knobs["cells"],
        position_bits=knobs["position_bits"],
        share=knobs["share"],
        error_feedback=knobs["error_feedback"],
    )
    return with_gradients(plan, given)


TECHNIQUE = Technique(
    id="tagc",
    algorithm="tagc",
    knobs={
        "density": Knob(0.2, 0.001, 1.0, "share of a tensor's entries that any rank keeps"),
        "cells": Knob(1.25, 1.0, 16.0, "cells of the sketch for each of them"),
        "position_bits": Knob(1, 1, 8, "of the map, for each entry of the tensor"),
        "share": Knob(0.77, 0.0, 1.0, "share of the weights whose gradients are compressed"),
        "error_feedback": Knob(True, doc="what was dropped is added to the next gradient"),
    },
    edits=EDITS,
    applies_to=applies,
    plan=_plan,
    saves="network",
    resource="scale-out",
    quality=QUALITY,
    limits=LIMITS,
)
