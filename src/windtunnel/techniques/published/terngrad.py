"""What `terngrad.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.compression import GradientCompression
from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.compressing import LIMITS, applies, with_gradients


def plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    given = GradientCompression(kind="ternary", bits=knobs["bits"], between=knobs["between"])
    return with_gradients(plan, given)


applies_to = applies
limits = LIMITS
