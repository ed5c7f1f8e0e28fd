"""SSDTrain: activations leave for drives during forward and are read ahead of backward.

What it costs: bandwidth of drives; what their writes or reads cannot follow delays the step.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Limits, Technique
from windtunnel.techniques.published.zero_infinity import applies


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    update = {"activations": knobs["share"], "activations_tier": "nvme", "prefetch_layers": knobs["prefetch_layers"]}
    return plan.model_copy(update={"offload": plan.offload.model_copy(update=update)})


TECHNIQUE = Technique(
    id="pytorch-direct-ssdtrain",
    knobs={
        "share": Knob(1.0, 0.0, 1.0, "of activations that leave"),
        "prefetch_layers": Knob(2, 1, 64, "layers with room on the device: 2 is one ahead"),
    },
    edits=(("plan", "activations"),),
    after=("zero-infinity", "fuyou", "cxl-offload"),
    applies_to=applies,
    plan=_plan,
    saves="device memory",
    resource="memory",
    limits=Limits(
        scenario={
            "model": "gpt3-6.7b",
            "cluster": {
                "device": "a100-pcie-40gb",
                "nodes": 1,
                "devices_per_node": 2,
                "scale_up": "nvlink-bridge-a100",
                "storage": {"bytes": "11 TB", "read_bytes_per_s": "48 GB/s", "write_bytes_per_s": "40 GB/s"},
            },
            "training": {"seq_len": 1024, "global_batch": 32, "framework": "megatron_core"},
            "plan": {"tp": 2, "mbs": 16},
        },
        measure="peak_memory_allocated_bytes",
        free={"training": {"seq_len": 32, "global_batch": 1}, "plan": {"mbs": 1}},  # activations that weigh nothing
        vanishes=0.02,
        pays="step_time_s",
        costly_scenario={"cluster": {"storage": {"read_bytes_per_s": "2 GB/s", "write_bytes_per_s": "1 GB/s"}}},
    ),
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
