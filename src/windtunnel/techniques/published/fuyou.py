"""Fuyou: everything lives on drives, the host updates layers while backward runs, and activations are swapped.

What it costs: two bytes a weight more than once over drives and link, and activations twice; drives that are slower
than recomputation make it lose.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec, Recompute
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.published.zero_infinity import applies


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    layers = knobs["recomputed_layers"]
    recompute = plan.recompute if layers is None else Recompute(policy="full", num_layers=layers)
    if layers == 0:
        recompute = Recompute(policy="none")
    offload = plan.offload.model_copy(
        update={
            "params": 1.0,
            "optimizer": 1.0,
            "gradients": 1.0,
            "activations": 1.0,
            "tier": "nvme",
            "params_tier": None,
            "optimizer_tier": None,
            "gradients_tier": "host",
            "activations_tier": knobs["activations"],
            "update": "beside_backward",
            "prefetch_layers": knobs["prefetch_layers"],
        }
    )
    return plan.model_copy(update={"recompute": recompute, "offload": offload})


TECHNIQUE = Technique(
    id="fuyou",
    knobs={
        "recomputed_layers": Knob(None, 0, 10_000, "layers that are recomputed, the others are swapped; absent: as is"),
        "activations": Knob("nvme", doc="where swapped activations go", choices=("host", "nvme")),
        "prefetch_layers": Knob(2, 1, 64, "layers with room on the device: 2 is one ahead"),
    },
    edits=(("plan", "offload"), ("plan", "recompute")),
    applies_to=applies,
    plan=_plan,
    saves="host update",
    resource="host",
)
