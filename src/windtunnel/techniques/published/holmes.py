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
from windtunnel.techniques.base import Knob, Technique
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
)
