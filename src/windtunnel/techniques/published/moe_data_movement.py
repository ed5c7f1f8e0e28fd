"""What `moe-data-movement.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.scenario import Scenario
from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques.base import ServingPart
from windtunnel.techniques.serving import limits_of_placement, served, with_expert_load


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    change = {
        "eplb": True,
        "placement": "near",
        "num_redundant_experts": int(knobs["num_redundant_experts"]),
        "step_interval": int(knobs["step_interval"]),
    }
    return with_expert_load(serving, change)


def applies_to(scenario: Scenario) -> str | None:
    reason = served(scenario)
    if reason or scenario.serving is None:
        return reason
    load = scenario.serving.expert_load
    if load is None or load.placement == "affinity":
        return "serving.expert_load must say how unevenly experts are drawn, without placement by affinity"
    out = getattr(scenario.cluster, "scale_out", None)
    if isinstance(scenario.cluster, str) or out is None or getattr(out, "topology", None) not in ("mesh", "torus"):
        return "cluster.scale_out.topology must be mesh or torus, with fabric.shape"
    return None if out.fabric else "cluster.scale_out.fabric must give the shape of the mesh or torus"


serving = ServingPart(settings=_settings)
limits = limits_of_placement(
    {
        "device": "h200-sxm-141gb",
        "nodes": 16,
        "devices_per_node": 4,
        "scale_out": {
            "nics_per_node": 4,
            "nic_bytes_per_s": 50e9,
            "latency_s": "4 us",
            "topology": "mesh",
            "fabric": {"shape": [4, 4]},
        },
    },
    max_num_seqs=8192,
)
