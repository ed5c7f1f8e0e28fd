"""PatrickStar: weights, gradients and optimizer state in chunks that fill the device first, and the host with the rest.

What it costs: chunks that live on the host cross the link before every use, and the host updates its part of the state.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.published.zero_infinity import applies


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    offload = plan.offload.model_copy(
        update={
            "params": knobs["params"],
            "gradients": knobs["params"],
            "optimizer": knobs["optimizer"],
            "gradients_in_place": True,
            "tier": "host",
        }
    )
    return plan.model_copy(update={"zero": 3, "offload": offload})


TECHNIQUE = Technique(
    id="patrickstar",
    knobs={
        "params": Knob(0.0, 0.0, 1.0, "share of the chunks of weights that live on the host"),
        "optimizer": Knob(1.0, 0.0, 1.0, "share of the chunks of optimizer state that live on the host"),
    },
    edits=(("plan", "shard"), ("plan", "offload")),
    applies_to=applies,
    plan=_plan,
    saves="device memory",
    resource="memory",
)
