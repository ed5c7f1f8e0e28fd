"""What `holmes.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.cluster import ClusterSpec, MixedCluster
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.workload import TrainingSpec
from windtunnel.techniques.published.cephalo import applies


def decide(
    plan: PlanSpec, model: ModelSpec, cluster: ClusterSpec, training: TrainingSpec, knobs: dict[str, Any]
) -> PlanSpec:
    if not isinstance(cluster, MixedCluster):
        return plan
    stages = max(plan.pp, knobs["stages"] or len(cluster.groups))
    return plan.model_copy(update={"group_axis": "pp", "pp": stages, "batch_shares": None, "dp": "auto"})


applies_to = applies
