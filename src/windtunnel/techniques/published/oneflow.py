"""What `oneflow.yaml` changes."""

from __future__ import annotations

from functools import partial
from typing import Any

from windtunnel import graph
from windtunnel.graph import Batch
from windtunnel.network.groups import GroupPlacement, placement
from windtunnel.network.model import NetworkModel
from windtunnel.parallel.sharding import COLUMN, DATA, HEADS, PRODUCT, ROW, ROWS, B, Node, chain_of, cheapest
from windtunnel.specs.cluster import ClusterSpec, MixedCluster
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.workload import TrainingSpec


def exchange_s(plan: PlanSpec, model: ModelSpec, cluster: ClusterSpec, training: TrainingSpec, tp: int) -> float:
    """Seconds of the cheapest exchanges of one step with a tensor axis of `tp` ranks, all stages of a replica."""
    replicas = max(cluster.num_devices // (tp * plan.pp * plan.cp), 1)
    micro_batches = max(training.global_batch // (plan.mbs * replicas), 1)
    network = NetworkModel(cluster)
    block = next(iter(graph.build(model, Batch.train(plan.mbs, training.seq_len)).blocks.values()))
    chain = chain_of(block)

    def seconds(place: GroupPlacement, operation: str, nbytes: float) -> float:
        return 0.0 if float(place.size) == 1 else float(network.collective(operation, nbytes, place).alone_s)

    layers = len(model.layer_kinds()) / plan.pp
    split = [Node(n.name, _along_weights(n), n.out_bytes) for n in chain]
    inner = placement(tp, 1, cluster.scale_up_domain)
    total = micro_batches * sum(x.seconds for x in cheapest(split, partial(seconds, inner), B)) if tp > 1 else 0.0
    outer = placement(replicas, tp * plan.cp, cluster.scale_up_domain)
    rows = [Node(n.name, (DATA,), n.out_bytes, n.weight_bytes / tp) for n in chain]
    return layers * (total + sum(x.seconds for x in cheapest(rows, partial(seconds, outer), ROWS)))


def _along_weights(node: Node) -> tuple[Any, ...]:
    """Signatures that cut work without cutting tokens."""
    if node.options == PRODUCT:
        return (COLUMN, ROW)
    return tuple(s for s in node.options if s.x != ROWS) or (HEADS,)


def decide(
    plan: PlanSpec, model: ModelSpec, cluster: ClusterSpec, training: TrainingSpec, knobs: dict[str, Any]
) -> PlanSpec:
    if isinstance(cluster, MixedCluster):
        return plan
    sizes = [
        tp
        for tp in range(1, min(knobs["most"], cluster.devices_per_node) + 1)
        if cluster.devices_per_node % tp == 0
        and model.num_attention_heads % tp == 0
        and cluster.num_devices % (tp * plan.pp * plan.cp) == 0
        and training.global_batch % (plan.mbs * cluster.num_devices // (tp * plan.pp * plan.cp)) == 0
    ]
    if plan.tp not in sizes:
        sizes.append(plan.tp)
    best = min(sizes, key=lambda tp: (exchange_s(plan, model, cluster, training, tp), tp != plan.tp))
    return plan.model_copy(update={"tp": best, "dp": "auto"})


def applies_to(scenario: Scenario) -> str | None:
    return None if scenario.training is not None else "it acts on training steps"
