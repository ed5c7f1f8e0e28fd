"""Groups of unlike devices as one launch: whole stages in each group, nodes in the order of the stages.

Groups along dp would each want a batch or shards of their own, and no target divides a batch unevenly.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from windtunnel.errors import BadInput, Problem
from windtunnel.specs.cluster import ClusterSpec, MixedCluster

if TYPE_CHECKING:
    from windtunnel.training.step_setup import PreparedStep


def one_launch(prepared: PreparedStep) -> tuple[PreparedStep, list[str]]:
    """The step on all nodes as one cluster, and how the nodes must be listed; any other step as it is.

    Raises:
        BadInput: what the groups need cannot be launched.
    """
    cluster = prepared.cluster
    if not isinstance(cluster, MixedCluster):
        return prepared, []
    if prepared.group_axis != "pp":
        rule = "groups along dp share a batch unevenly, which no target can; group_axis pp gives each whole stages"
        raise BadInput(Problem("plan.group_axis", rule, prepared.group_axis))
    sizes = sorted({group.devices_per_node for group in cluster.groups})
    if len(sizes) > 1:
        rule = "must have the same devices_per_node: one launcher starts as many processes on every node"
        raise BadInput(Problem("cluster.groups", rule, sizes))
    if prepared.plan.order[-1] != "pp":
        rule = "must end with pp: stages lie in groups of nodes"
        raise BadInput(Problem("plan.order", rule, list(prepared.plan.order)))
    nodes = sum(group.nodes for group in cluster.groups)
    fields = {name: getattr(cluster, name) for name in ClusterSpec.model_fields}
    whole = ClusterSpec.model_construct(**{**fields, "nodes": nodes})
    first, notes = 0, []
    for group in cluster.groups:
        notes.append(f"NODE_RANK {first} to {first + group.nodes - 1} must be nodes of {group.device.id}")
        first += group.nodes
    return replace(prepared, cluster=whole), notes
