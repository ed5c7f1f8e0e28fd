"""What `frontier-zero-topo.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec, ShardLevels
from windtunnel.techniques.published.zero import applies


def plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    levels = ShardLevels(
        params=knobs["weights"] or None,
        params_again=knobs["weights_again"] or None,
        gradients=knobs["gradients"] or None,
        gather_bits=knobs["gather_bits"],
        reduce_bits=knobs["reduce_bits"],
    )
    return plan.model_copy(update={"zero": 3, "levels": levels})


applies_to = applies
