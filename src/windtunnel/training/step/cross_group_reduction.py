"""Gradients between groups of replicas on different devices: the part of the reduction that leaves a group.

Each group reduces its own gradients first, so that every rank of it holds one shard of the group's sum; shards then
meet those of the other groups over the network between them. A reduction between groups starts when the last group has
its sum and takes what the slowest group's side needs.

Source: hierarchical reduction as in Wang et al. 2023, Holmes (arXiv 2312.03549), section 3.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from windtunnel.arrays import Floats, Ints, Rows
from windtunnel.network.coefficients import NetworkCoefficients
from windtunnel.network.groups import placement
from windtunnel.program.comm_work import CommWork
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.training.data_parallel.comm_costs import DataParallelComm
from windtunnel.training.stage_costs.pricing_cache import PricingCache
from windtunnel.training.step.replica_tasks import FinalReductions, ReplicaTasks
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

    def seconds(self, comms: list[DataParallelComm], pieces: Rows) -> tuple[Floats, list[Floats]]:
        """Seconds of one piece of each virtual stage, and the bytes that it sends through each group's ports.

        Args:
            comms: Data-parallel communication of each group.
            pieces: (K,): pieces of each virtual stage.
        """
        count = len(self.sides)
        slowest, sent = np.zeros(len(pieces)), []
        for side, comm in zip(self.sides, comms, strict=True):
            params = replace(comm.stages.network.params, out=NetworkCoefficients.for_cluster(side).out)
            network = self.cache.network(side, params)
            place = placement(count, side.scale_up_domain, side.scale_up_domain)
            grads = comm.options.grad_bytes * comm.trainable / pieces
            shards = (
                (comm.stages.dense_params, comm.plan.dp * comm.plan.cp),
                (comm.stages.expert_params, comm.edp),
            )
            seconds, scale_out_bytes = np.zeros(len(pieces)), np.zeros(len(pieces))
            for weights, ranks in shards:
                if weights.any():
                    found = network.collective("all_reduce", weights * grads / ranks, place)
                    seconds = seconds + found.alone_s
                    scale_out_bytes = scale_out_bytes + found.work_scale_out_bytes
            slowest = np.maximum(slowest, seconds)
            sent.append(scale_out_bytes * 0.0 if self.own_ports else scale_out_bytes)
        return slowest, sent


def add_cross_group_reductions(tasks: TaskBuilder, replicas: list[ReplicaTasks], network: CrossGroupNetwork) -> None:
    """Reduce every piece between the groups once all have their own sum.

    Groups launch these reductions in the order of the first group, each as soon as its own sums are launched.
    """
    first = _reductions(replicas[0])
    seconds, sent = network.seconds([replica.group.comm for replica in replicas], first.pieces)
    order = np.lexsort((first.key, replicas[0].instructions.stage_of[first.virtual_stage]))
    positions = [_positions(_reductions(replica), first, order) for replica in replicas]
    own_sums = [
        _reductions(replica).ids[at] + replica.first_id for replica, at in zip(replicas, positions, strict=True)
    ]
    keys = [_launch_keys(replica, at) for replica, at in zip(replicas, positions, strict=True)]
    virtual_stage = first.virtual_stage[order]
    for replica, key, scale_out_bytes in zip(replicas, keys, sent, strict=True):
        tasks.begin(replica.first_stage, 0)
        stage = replica.instructions.stage_of[virtual_stage]
        work = CommWork.of(seconds[virtual_stage], scale_out_bytes=scale_out_bytes[virtual_stage])
        ids = tasks.add(key, stage, S_REDUCE, work, T_REDUCE)
        for own in own_sums:
            tasks.depend(ids, own)
        for s in range(replica.group.schedule.p):
            replica.finish[s].append(int(ids[np.flatnonzero(stage == s)[-1]]) - replica.first_id)


def _reductions(replica: ReplicaTasks) -> FinalReductions:
    assert replica.reductions is not None
    return replica.reductions


def _positions(own: FinalReductions, first: FinalReductions, order: Ints) -> Ints:
    """Where a group's reductions of the same pieces are, in the order of the first group."""
    assert np.array_equal(own.pieces, first.pieces)
    widest = int(first.pieces.max())
    wanted = (first.virtual_stage * widest + first.piece)[order]
    present = own.virtual_stage * widest + own.piece
    by_piece = np.argsort(present, kind="stable")
    return np.asarray(by_piece[np.searchsorted(present[by_piece], wanted)])


def _launch_keys(replica: ReplicaTasks, at: Ints) -> Floats:
    """Launch keys just after a group's own sums, rising along each stage."""
    own = _reductions(replica)
    key, stage = own.key[at], replica.instructions.stage_of[own.virtual_stage[at]]
    for s in range(replica.group.schedule.p):
        key[stage == s] = np.maximum.accumulate(key[stage == s])
    return key + 0.125
