"""What `pipette.yaml` changes."""

from __future__ import annotations

from itertools import permutations
from typing import Any

from windtunnel import graph
from windtunnel.network.groups import Mesh
from windtunnel.network.model import NetworkModel
from windtunnel.specs.cluster import ClusterSpec, MixedCluster
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.plan import Axis, PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.workload import TrainingSpec

ELEMENT_BYTES, GRADIENT_BYTES = 2.0, 4.0


def exposed_s(
    order: tuple[Axis, ...], plan: PlanSpec, model: ModelSpec, cluster: ClusterSpec, training: TrainingSpec
) -> float:
    """Communication on the critical path of one stage: layers, hops there and back, and its gradients.

    Only what depends on where axes lie; computation does not.
    """
    inner = plan.tp * plan.cp * plan.pp
    sizes = {"tp": plan.tp, "cp": plan.cp, "pp": plan.pp, "dp": max(cluster.num_devices // inner, 1)}
    mesh, network = Mesh(sizes, [axis for axis in order if axis != "ep"], cluster), NetworkModel(cluster)
    batches = max(training.global_batch // (sizes["dp"] * plan.mbs), 1)
    tokens = plan.mbs * training.seq_len / plan.cp
    hidden = tokens * model.hidden_size * ELEMENT_BYTES
    layers = len(model.layer_kinds()) / plan.pp
    total = 0.0
    if plan.tp > 1:
        total += 4.0 * layers * batches * float(network.collective("all_reduce", hidden, mesh.placement("tp")).alone_s)
    if plan.cp > 1:
        keys = 2.0 * hidden * plan.cp
        total += 2.0 * layers * batches * float(network.collective("all_gather", keys, mesh.placement("cp")).alone_s)
    if plan.pp > 1:
        crosses = mesh.strides["pp"] * plan.pp > cluster.scale_up_domain
        hop = float(network.p2p(hidden / plan.tp, crosses).alone_s)
        total += 2.0 * (batches + plan.pp - 1) * hop
    if sizes["dp"] * plan.cp > 1:
        weights = _weights(model) / (plan.tp * plan.pp)
        place = mesh.placement("cp", "dp") if plan.cp > 1 else mesh.placement("dp")
        total += float(network.collective("all_reduce", weights * GRADIENT_BYTES, place).alone_s)
    return total


def _weights(model: ModelSpec) -> float:
    """Weights of all layers."""
    g = graph.build(model, graph.Batch.train(1, 128))
    return sum(g.blocks[kind].params * g.depth.count(kind) for kind in g.blocks)


def decide(
    plan: PlanSpec, model: ModelSpec, cluster: ClusterSpec, training: TrainingSpec, knobs: dict[str, Any]
) -> PlanSpec:
    if isinstance(cluster, MixedCluster):
        return plan
    moved: list[Axis] = [axis for axis in plan.order if axis != "ep" and (axis != "tp" or knobs["move_tp"])]
    first: tuple[Axis, ...] = () if knobs["move_tp"] else ("tp",)
    orders = [_with_experts((*first, *rest)) for rest in permutations(moved)]
    best = min(orders, key=lambda order: (exposed_s(order, plan, model, cluster, training), order != plan.order))
    return plan.model_copy(update={"order": best})


def _with_experts(order: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """The order with the expert axis before data parallelism, as by default."""
    at = order.index("dp")
    return (*order[:at], "ep", *order[at:])


def applies(scenario: Scenario) -> str | None:
    """Two axes can change places."""
    if scenario.training is None:
        return "there is no `training` section"
    return "there is no pipeline" if scenario.plan.pp == 1 else None


applies_to = applies
