"""CXL-aware offloading: optimizer state stays in host memory, what only crosses the link goes to CXL cards, striped.

What it costs: host memory for the optimizer; copies are as fast as the cards.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Limits, Technique
from windtunnel.techniques.published.zero_infinity import applies as trains

CARDS = {"cards": 2, "bytes": "512 GiB", "bytes_per_s": "25 GB/s"}
"""Add-in cards of memory behind PCIe 5 x8: 31.5 GB/s a direction, less what packets of cache lines take."""


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    away = plan.offload.model_copy(
        update={
            "optimizer_tier": "host",
            "params_tier": "cxl",
            "activations_tier": "cxl",
            "gradients_tier": "cxl",
            "stripe": knobs["stripe"],
        }
    )
    return plan.model_copy(update={"offload": away})


def applies(scenario: Scenario) -> str | None:
    """There must be cards, and something that may lie on them."""
    return trains(scenario) or (None if scenario.plan.offload.any else "nothing is offloaded")


TECHNIQUE = Technique(
    id="cxl-offload",
    knobs={"stripe": Knob(True, doc="spread tensors over all cards; else a card a device")},
    edits=(("plan", "offload tiers"),),
    after=("zero-infinity", "fuyou"),
    applies_to=applies,
    plan=_plan,
    saves="CXL bandwidth",
    resource="host link",
    limits=Limits(
        scenario={
            "model": "gpt3-13b",
            "cluster": {
                "device": "h100-pcie-80gb",
                "nodes": 1,
                "devices_per_node": 2,
                "cxl": CARDS,
                "host_memory_bytes": "512 GiB",
                "host_memory_bytes_per_s": "230 GB/s",
                "host_cores": 64,
            },
            "training": {"seq_len": 16384, "global_batch": 2, "framework": "deepspeed"},
            "plan": {
                "zero": 3,
                "recompute": {"policy": "full"},
                "offload": {"params": 1.0, "optimizer": 1.0, "activations": 1.0, "tier": "cxl"},
            },
        },
        free={"cluster": {"cxl": CARDS | {"bytes_per_s": 1e16}, "host_memory_bytes_per_s": 1e16}},
        costly={"stripe": False},
        costly_scenario={
            "cluster": {"cxl": CARDS | {"cards": 2}},
            "plan": {"offload": {"optimizer": 0.0, "tier": "host"}},
        },
    ),
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
