"""What `dettmers-8bit.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.compression import GradientCompression
from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.compressing import LIMITS, applies, with_gradients


def plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    given = GradientCompression(bits=knobs["bits"], block=None, between=knobs["between"])
    plan = with_gradients(plan, given)
    bits = knobs["bits"] if knobs["activations"] else None
    return plan.model_copy(update={"compression": plan.compression.model_copy(update={"hop_bits": bits})})


applies_to = applies
limits = LIMITS
