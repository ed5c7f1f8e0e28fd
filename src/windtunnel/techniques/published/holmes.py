"""Holmes: data parallelism inside one kind of network, the pipeline across the slow border.

Gradients never leave the group whose devices share a fast network; activations alone cross between groups. What it
costs: a pipeline, with its bubble, and hops over the slow network.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.cluster import ClusterSpec, MixedCluster
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.workload import TrainingSpec
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Limits, Technique
from windtunnel.techniques.published.cephalo import applies


def _decide(
    plan: PlanSpec, model: ModelSpec, cluster: ClusterSpec, training: TrainingSpec, knobs: dict[str, Any]
) -> PlanSpec:
    if not isinstance(cluster, MixedCluster):
        return plan
    stages = max(plan.pp, knobs["stages"] or len(cluster.groups))
    return plan.model_copy(update={"group_axis": "pp", "pp": stages, "batch_shares": None, "dp": "auto"})


TECHNIQUE = Technique(
    id="holmes",
    knobs={"stages": Knob(None, 2, 256, "pipeline stages; absent: one a group, or as the plan has them")},
    edits=(("plan", "groups"),),
    applies_to=applies,
    decide=_decide,
    saves="scale-out",
    limits=Limits(
        scenario={
            "model": "gpt3-6.7b",
            "cluster": {
                "groups": [
                    {"device": "a100-sxm-80gb", "nodes": 1, "devices_per_node": 8, "scale_out": "2 x infiniband-hdr"},
                    {"device": "a100-sxm-80gb", "nodes": 1, "devices_per_node": 8, "scale_out": "2 x roce-200g"},
                ],
                "between": {"nics_per_node": 1, "nic_bytes_per_s": "25 Gb/s", "latency_s": 2e-5},
            },
            "training": {"seq_len": 2048, "global_batch": 64, "framework": "megatron_2022"},
            "plan": {"tp": 2, "pp": 2, "mbs": 1},
        },
        free={"plan": {"group_axis": "pp"}},  # the pipeline crosses already
        costly_scenario={
            "cluster": {
                "groups": [{"device": "a100-sxm-80gb", "nodes": 1, "devices_per_node": 8}] * 2,
                "between": {"nics_per_node": 8, "nic_bytes_per_s": "800 Gb/s"},
            },
            "training": {"global_batch": 2, "seq_len": 8192},
            "plan": {"pp": 1, "tp": 8},
        },
    ),
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
