"""QSDP: FSDP whose weights are gathered, and whose gradients are scattered, in few bits.

What it costs: kernels at both ends of every gather and reduction.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.compression import Compression, GradientCompression
from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.compressing import EDITS, QUALITY, applies


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    gradients = GradientCompression(bits=knobs["gradient_bits"], block=knobs["bucket"], between=knobs["between"])
    sent = {"gradients": gradients, "gather_bits": knobs["weight_bits"], "gather_block": knobs["bucket"]}
    compression = Compression.model_validate(plan.compression.model_dump() | sent)
    return plan.model_copy(update={"zero": max(plan.zero, 3), "compression": compression})


TECHNIQUE = Technique(
    id="qsdp",
    algorithm="qsdp",
    knobs={
        "weight_bits": Knob(8, 2, 16, "of a weight on its way"),
        "gradient_bits": Knob(8, 2, 16, "of a gradient on its way"),
        "bucket": Knob(1024, 32, 1 << 20, "values that share a scale"),
        "between": Knob("nodes", doc="who exchanges compressed gradients", choices=("ranks", "nodes", "levels")),
    },
    edits=(*EDITS, ("plan", "shard"), ("plan", "weights sent")),
    applies_to=applies,
    plan=_plan,
    saves="network",
    resource="scale-out",
    quality=QUALITY,
)
