"""ZeRO-Infinity: sharded state lives in host memory or on drives; every rank moves its own slice over its own link.

What it costs: slices cross the host link before every gather, and the host updates what it keeps after backward.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques.base import Knob, Technique

TIERS = ("device", "host", "nvme")


def shares(knobs: dict[str, Any]) -> dict[str, Any]:
    """Fields of `plan.offload` from knobs that name a tier for each class of tensors."""
    out: dict[str, Any] = {}
    for name in ("params", "gradients", "optimizer", "activations"):
        tier = knobs[name]
        out |= {name: 0.0 if tier == "device" else 1.0, f"{name}_tier": None if tier == "device" else tier}
    return out


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    offload = plan.offload.model_copy(
        update=shares(knobs)
        | {
            "prefetch_layers": knobs["prefetch_layers"],
            "pinned_bytes": knobs["pinned_gb"] * 1e9,
            "update": "pipelined" if knobs["pipelined"] else "in_turn",
        }
    )
    return plan.model_copy(update={"zero": 3, "offload": offload})


def applies(scenario: Scenario) -> str | None:
    """It acts on training."""
    return "it acts on training steps" if scenario.training is None else None


TECHNIQUE = Technique(
    id="zero-infinity",
    knobs={
        "params": Knob("host", doc="where weights live", choices=TIERS),
        "gradients": Knob("host", doc="where gradients are added up", choices=TIERS),
        "optimizer": Knob("host", doc="where optimizer state lives and is updated", choices=TIERS),
        "activations": Knob("device", doc="where what backward needs is kept", choices=TIERS),
        "prefetch_layers": Knob(2, 1, 64, "layers with room on the device: 2 is one ahead"),
        "pinned_gb": Knob(0.0, 0.0, 1e4, "staging buffers in host memory, GB a device"),
        "pipelined": Knob(True, doc="reads, updates and writes of groups run beside one another"),
    },
    edits=(("plan", "shard"), ("plan", "offload")),
    applies_to=applies,
    plan=_plan,
    saves="device memory",
    resource="memory",
    where={"deepspeed": "zero_optimization.offload_param, offload_optimizer"},
)
