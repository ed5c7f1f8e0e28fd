"""What `qsdp.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.compression import Compression, GradientCompression
from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.compressing import applies


def plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    gradients = GradientCompression(bits=knobs["gradient_bits"], block=knobs["bucket"], between=knobs["between"])
    sent = {"gradients": gradients, "gather_bits": knobs["weight_bits"], "gather_block": knobs["bucket"]}
    compression = Compression.model_validate(plan.compression.model_dump() | sent)
    return plan.model_copy(update={"zero": max(plan.zero, 3), "compression": compression})


applies_to = applies
