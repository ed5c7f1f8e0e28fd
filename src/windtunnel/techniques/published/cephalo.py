"""What `cephalo.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.cluster import ClusterSpec, MixedCluster
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.workload import TrainingSpec


def decide(
    plan: PlanSpec, model: ModelSpec, cluster: ClusterSpec, training: TrainingSpec, knobs: dict[str, Any]
) -> PlanSpec:
    if not isinstance(cluster, MixedCluster):
        return plan
    update: dict[str, Any] = {"group_axis": "dp", "batch_shares": "balanced"}
    if knobs["shard_state"]:
        update["zero"] = 3
    if knobs["by_layer"] and plan.pp == 1:
        update |= {
            "zero": 3,
            "schedule": "breadth_first",
            "vpp": len(model.layer_kinds()),
            "gather_per_block": True,
            "stage_layers": None,
        }
    return plan.model_copy(update=update)


def applies(scenario: Scenario) -> str | None:
    """Both systems for mixed clusters need one."""
    if scenario.training is None:
        return "it acts on training steps"
    groups = getattr(scenario.cluster, "groups", None)
    return None if groups else "all devices are alike (no cluster.groups)"


applies_to = applies
