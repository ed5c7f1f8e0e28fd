"""Cephalo: on mixed devices the share of the batch follows speed, apart from the share of the state.

Fast groups run more micro-batches, so that all are done together; state is sharded inside each group. What it costs:
groups with more micro-batches accumulate longer; layer by layer, the activations of all micro-batches stay.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.cluster import ClusterSpec, MixedCluster
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.workload import TrainingSpec
from windtunnel.techniques.base import Knob, Technique


def _decide(
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


TECHNIQUE = Technique(
    id="cephalo",
    knobs={
        "shard_state": Knob(True, doc="shard parameters and optimizer inside each group (ZeRO-3)"),
        "by_layer": Knob(False, doc="all micro-batches through a layer before the next: one gather each way"),
    },
    edits=(("plan", "groups"),),
    applies_to=applies,
    decide=_decide,
    saves="imbalance",
)
