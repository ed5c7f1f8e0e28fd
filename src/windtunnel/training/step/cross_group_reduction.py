"""Gradients between groups of replicas on unlike devices: the part of the reduction that leaves a group.

Each group reduces its own gradients first, so that every rank of it holds one shard of the group's sum; shards then
meet those of the other groups over the network between them. A reduction between groups starts when the last group has
its sum and takes what the slowest group's side needs.

Source: hierarchical reduction as in Wang et al. 2023, Holmes (arXiv 2312.03549), section 3.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from windtunnel.arrays import Floats, Rows
from windtunnel.network.coefficients import NetworkCoefficients
from windtunnel.network.groups import placement
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.training.data_parallel.comm_costs import DataParallelComm
from windtunnel.training.stage_costs.pricing_cache import PricingCache
from windtunnel.training.step.replica_tasks import ReplicaTasks
from windtunnel.training.task_builder import S_REDUCE, T_REDUCE, TaskBuilder


@dataclass(frozen=True, slots=True)
class CrossGroupNetwork:
    """The network between groups, seen from each of them."""

    sides: tuple[ClusterSpec, ...]
    """Each group with the network between groups in place of its scale-out network."""
    own_ports: bool
    """Whether that network has ports of its own, which nothing else of the step uses."""
    cache: PricingCache = field(default_factory=PricingCache, compare=False, repr=False)
    """Networks that other steps of a search asked before."""

    def seconds(self, traffic: list[DataParallelComm], pieces: Rows) -> tuple[Floats, list[Floats]]:
        """Seconds of one piece of each virtual stage, and the bytes that it sends through each group's ports.

        Args:
            traffic: data-parallel traffic of each group.
            pieces: pieces of each virtual stage, shape (K,).
        """
        count = len(self.sides)
        slowest, sent = np.zeros(len(pieces)), []
        for side, own in zip(self.sides, traffic, strict=True):
            params = replace(own.stages.network.params, out=NetworkCoefficients.for_cluster(side).out)
            network = self.cache.network(side, params)
            place = placement(count, side.scale_up_domain, side.scale_up_domain)
            grads = own.options.grad_bytes * own.trainable / pieces
            shards = ((own.stages.dense_params, own.plan.dp * own.plan.cp), (own.stages.expert_params, own.edp))
            seconds, out = np.zeros(len(pieces)), np.zeros(len(pieces))
            for weights, ranks in shards:
                if weights.any():
                    one = network.collective("all_reduce", weights * grads / ranks, place)
                    seconds, out = seconds + one.alone_s, out + one.work_scale_out_bytes
            slowest = np.maximum(slowest, seconds)
            sent.append(out * 0.0 if self.own_ports else out)
        return slowest, sent


def join(asm: TaskBuilder, laid: list[ReplicaTasks], between: CrossGroupNetwork) -> None:
    """Reduce every piece between the groups once all have their own sum.

    Groups launch these reductions in the order of the first group, each as soon as its own sums are launched.
    """
    first = laid[0].reduced
    assert first is not None
    seconds, sent = between.seconds([x.replicas.traffic for x in laid], first.pieces)
    p = laid[0].replicas.schedule.p
    widest = int(first.pieces.max())
    order = np.lexsort((first.key, laid[0].stage_of[first.part]))
    code = (first.part * widest + first.piece)[order]
    local: list[Rows] = []
    keys: list[Floats] = []
    for x in laid:
        reduced = x.reduced
        assert reduced is not None and np.array_equal(reduced.pieces, first.pieces)
        mine = reduced.part * widest + reduced.piece
        by_code = np.argsort(mine, kind="stable")
        at = by_code[np.searchsorted(mine[by_code], code)]
        local.append(reduced.ids[at] + x.first_id)
        key = reduced.key[at]
        for s in range(p):
            of_stage = x.stage_of[reduced.part[at]] == s
            key[of_stage] = np.maximum.accumulate(key[of_stage])
        keys.append(key + 0.125)
    k = first.part[order]
    for x, key, out in zip(laid, keys, sent, strict=True):
        asm.begin(x.first_stage, 0)
        ids = asm.add(key, x.stage_of[k], S_REDUCE, seconds[k], T_REDUCE, out=out[k])
        for ready in local:
            asm.depend(ids, ready)
        for s in range(p):
            x.finish[s].append(int(ids[np.flatnonzero(x.stage_of[k] == s)[-1]]) - x.first_id)
