"""What techniques share that send less than whole gradients: their field, where they apply, a case on Ethernet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windtunnel.specs.compression import GradientCompression
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques.base import Level, Limits
from windtunnel.techniques.limits import FREE

QUALITY = "gradients are approximate: convergence and final quality may suffer, which no prediction counts"
EDITS: tuple[tuple[Level, str], ...] = (("plan", "gradients sent"), ("plan", "levels"))
ETHERNET: Mapping[str, Any] = {
    "model": "gpt2-xl",
    "cluster": {
        "device": "v100-sxm-32gb",
        "nodes": 8,
        "devices_per_node": 4,
        "scale_out": {"nics_per_node": 1, "nic_bytes_per_s": "10 Gb/s"},
    },
    "training": {"seq_len": 1024, "global_batch": 64, "precision": "fp16", "framework": "generic"},
    "plan": {"mbs": 1, "zero": 0},
}
"""Replicas behind one port a node, with few sequences each."""
FEW_BYTES: Mapping[str, Any] = {**FREE["network"], "training": {"global_batch": 2048}}
"""A free network and many sequences a replica: gradients cost nothing, and kernels at their ends little."""


LIMITS = Limits(scenario=ETHERNET, free=FEW_BYTES, vanishes=0.02, costly_scenario=FREE["network"])
"""Limits of techniques that compress gradients alone: on a network that costs nothing only their kernels are left."""


def with_gradients(plan: PlanSpec, given: GradientCompression) -> PlanSpec:
    """The plan with compressed gradients."""
    return plan.model_copy(update={"compression": plan.compression.model_copy(update={"gradients": given})})


def applies(scenario: Scenario) -> str | None:
    """There are gradients of dense layers, and somebody to send them to."""
    if scenario.training is None:
        return "there is no `training` section"
    if scenario.training.phase == "lora":
        return "gradients of adapters are small as they are"
    if scenario.plan.dp == 1 and scenario.plan.cp == 1:
        return "dp is 1: no gradients are exchanged"
    return None
