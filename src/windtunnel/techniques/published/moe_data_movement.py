"""Experts are copied and laid over a mesh by what a forecast says of them, and tokens go to the nearest copy.

Switches `serving.expert_load.eplb` on with `placement: near`. The mechanism is in `cost/expert_mesh.py`: hot experts
get copies, each copy the rank that brings it nearest to all within an even load; the fullest link of the mesh decides.
What it costs: memory of the copies, their weights read, moving experts every `step_interval` iterations.

The forecast knows the popularity of experts exactly; Zipf's law stands for the routing traces of the paper.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.scenario import Scenario
from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques.base import Knob, ServingPart, Technique
from windtunnel.techniques.serving import limits_of_placement, served, with_expert_load


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    change = {
        "eplb": True,
        "placement": "near",
        "num_redundant_experts": int(knobs["num_redundant_experts"]),
        "step_interval": int(knobs["step_interval"]),
    }
    return with_expert_load(serving, change)


def _applies(scenario: Scenario) -> str | None:
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


TECHNIQUE = Technique(
    id="moe-data-movement",
    knobs={
        "num_redundant_experts": Knob(64, 0, 4096, "copies beside one of each expert, over all ranks"),
        "step_interval": Knob(3000, 1, 1 << 20, "iterations between two forecasts"),
    },
    edits=(("run", "experts"),),
    applies_to=_applies,
    serving=ServingPart(settings=_settings),
    saves="links that tokens cross, full links, waiting for the rank with most tokens",
    resource="network",
    limits=limits_of_placement(
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
    ),
)
