"""8-bit approximations: 32-bit gradients, and activations between stages, as 8-bit numbers.

What it costs: kernels that make them small and wide again, at both halves of the exchange.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.compression import GradientCompression
from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.compressing import EDITS, LIMITS, QUALITY, applies, with_gradients


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    given = GradientCompression(bits=knobs["bits"], block=None, between=knobs["between"])
    plan = with_gradients(plan, given)
    bits = knobs["bits"] if knobs["activations"] else None
    return plan.model_copy(update={"compression": plan.compression.model_copy(update={"hop_bits": bits})})


TECHNIQUE = Technique(
    id="dettmers-8bit",
    algorithm="dettmers-8bit",
    knobs={
        "bits": Knob(8, 2, 16, "of one value"),
        "activations": Knob(True, doc="activations between pipeline stages too"),
        "between": Knob("levels", doc="who exchanges compressed gradients", choices=("ranks", "nodes", "levels")),
    },
    edits=(*EDITS, ("plan", "hops")),
    applies_to=applies,
    plan=_plan,
    saves="network",
    resource="scale-out",
    quality=QUALITY,
    limits=LIMITS,
)
