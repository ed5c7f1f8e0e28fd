"""TernGrad: gradients as minus one, zero or one times a scale that all ranks share.

What it costs: the largest gradient of every tensor before the exchange, sums that are wider than what is sent.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.compression import GradientCompression
from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.compressing import EDITS, LIMITS, QUALITY, applies, with_gradients


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    given = GradientCompression(kind="ternary", bits=knobs["bits"], between=knobs["between"])
    return with_gradients(plan, given)


TECHNIQUE = Technique(
    id="terngrad",
    algorithm="terngrad",
    knobs={
        "bits": Knob(2.0, 1.585, 8.0, "of one value on its way: 2 packed, 1.6 five in a byte"),
        "between": Knob("ranks", doc="who exchanges ternary values", choices=("ranks", "nodes", "levels")),
    },
    edits=EDITS,
    applies_to=applies,
    plan=_plan,
    saves="network",
    resource="scale-out",
    quality=QUALITY,
    limits=LIMITS,
)
