"""Lower bounds of steps on a heterogeneous cluster, from the simulator's own parts, hops and traffic.

Every figure comes from the replicas that a step program is built of (`training.step.replica_tasks`). Each group has to
walk its own paths, whatever the others do. To these come the reductions that follow: those of a stage, inside its
group and between groups, are one stream, which cannot start before the stage's last micro-batch reaches its first
backward that completes a gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.planner.bounds.block_costs import depth_columns, kept_by_kind
from windtunnel.planner.bounds.pipeline_shape import held_at_once
from windtunnel.schedules.table import B, InstructionTable, W
from windtunnel.specs.plan import Offload
from windtunnel.training.heterogeneous.prepare_groups import GroupStep
from windtunnel.training.memory.static_memory import static_memory
from windtunnel.training.step.cross_group_reduction import CrossGroupNetwork
from windtunnel.training.step.replica_group import ReplicaGroup

LASTING = ("weights", "gradients", "optimizer")
"""Kinds of static memory that are there at every peak."""
_REGULAR = ("1f1b", "interleaved_1f1b", "interleaved_1f1b_steady", "gpipe")
"""Schedules whose last instructions do not depend on the number of micro-batches, from two for each stage on."""


@dataclass(frozen=True, slots=True)
class Walk:
    """What one group walks through, for any number of micro-batches. K parts, S stages."""

    replicas: ReplicaGroup
    between_s: Floats
    """(K,): seconds of all reductions between groups of each part."""

    def seconds(self, micro_batches: Ints) -> Floats:
        """Earliest end of a step, for each number of micro-batches.

        A stage waits until the first micro-batch has come down to it, runs all its instructions one after the other,
        and after its last backward the stages above still have to run theirs. A hop that blocks the stage is part of
        it; the last one is also part of the way up, and counted once.
        """
        x = self.replicas
        way = _way(x)
        forward, backward, weight = x.stages.seconds
        blocking = 0.0 if x.plan.overlap_p2p else 1.0
        fill, drain = way.before @ forward + way.travel_s, way.before @ backward + way.travel_s
        passes = way.own @ (forward + backward) + blocking * way.sends_s
        times = micro_batches[:, None].astype(np.float64)
        finish = fill + times * (passes + way.own @ weight)
        whole = (fill + times * passes + drain).max(axis=1) - blocking * way.longest_s
        if not x.schedule.split_backward:
            whole = np.maximum(whole, (finish + drain).max(axis=1) - blocking * way.longest_s)
        first, tail, last = _after(x, self.between_s, way.own, blocking * way.longest_s)
        # a reduction waits for the last backward, not for the hop after it, which the first part has not
        after = np.where(way.own[:, 0] > 0, 0.0, blocking * way.longest_s)
        ends = np.maximum((finish + tail - after).max(axis=1), whole)
        return np.asarray(first + ends + last)


@dataclass(frozen=True, slots=True)
class _Way:
    """How a pipeline's parts follow one another. K parts, S stages."""

    own: Floats
    """(S, K): which parts a stage runs."""
    before: Floats
    """(S, K): which come before a stage's first."""
    travel_s: Floats
    """(S,): hops from the first part down to a stage's first."""
    sends_s: Floats
    """(S,): hops that a stage sends for each micro-batch, both ways."""
    longest_s: float


def joint_walks(classes: Sequence[ReplicaGroup], between: CrossGroupNetwork) -> list[Walk]:
    """Groups along dp: each group's walk."""
    pieces = _pieces(classes[0])
    each, _ = between.seconds([x.comm for x in classes], pieces)
    return [Walk(x, each * pieces) for x in classes]


def alone_walk(x: ReplicaGroup) -> Walk:
    """Groups along pp: the one walk there is."""
    return Walk(x, np.zeros(len(x.stages.layers)))


def held_bytes(part: GroupStep, micro_batches: int, columns: Floats | None = None) -> tuple[Floats, Floats]:
    """Least bytes of each stage at its peak, shape (S,), and what blocks keep by column (to be used again).

    Args:
        part: a group, with all stages as if they ran on it.
        micro_batches: of one replica.
        columns: what blocks keep, where it is known.
    """
    x, plan = part.replicas, part.step.plan
    stage_of = x.schedule.placement[:, 0].astype(np.int64)
    kinds = static_memory(part.step.stages, plan, part.training, part.step.behaviour, stage_of).by_kind
    static = sum((kinds[name] for name in LASTING if name in kinds), np.zeros(plan.pp))
    if columns is None:
        on_device = replace(plan, offload=Offload())
        columns = kept_by_kind(part.step.stages, on_device, part.step.schedule, part.training, part.step.behaviour)
    kept = depth_columns(part.step.stages, plan, stage_of) @ columns
    own = np.bincount(stage_of, weights=kept, minlength=plan.pp) * (1.0 - plan.offload.activations)
    return static + own * held_at_once(plan.schedule, plan.pp, plan.vpp, micro_batches), columns


def _way(x: ReplicaGroup) -> _Way:
    stage_of = x.schedule.placement[:, 0].astype(np.int64)
    k, s = len(stage_of), x.schedule.p
    own = np.zeros((s, k))
    own[stage_of, np.arange(k)] = 1.0
    first = np.full(s, k)
    np.minimum.at(first, stage_of, np.arange(k))
    taken = np.zeros(k - 1)
    moves = np.flatnonzero(stage_of[1:] != stage_of[:-1])
    if len(moves):
        taken[moves] = x.hops(stage_of[moves], stage_of[moves + 1]).seconds
    sends = np.zeros(s)
    np.add.at(sends, stage_of[:-1], taken)
    np.add.at(sends, stage_of[1:], taken)
    before = (np.arange(k) < first[:, None]).astype(np.float64)
    travel = np.concatenate([[0.0], np.cumsum(taken)])[first]
    return _Way(own, before, travel, sends, float(taken.max(initial=0.0)))


def _pieces(x: ReplicaGroup) -> Ints:
    """(K,): pieces in which a part's gradients are reduced."""
    if x.plan.zero == 3:
        return np.maximum(x.stages.layers, 1).astype(np.int64)
    if x.comm.options.overlap_grad_reduce:
        return x.comm.bucket_counts()
    return np.ones(len(x.stages.layers), np.int64)


def _after(x: ReplicaGroup, between_s: Floats, own: Floats, hop_s: float) -> tuple[float, Floats, float]:
    """Seconds before the first instruction, after each stage's last one (S,), and after all of them."""
    traffic, plan, s = x.comm, x.plan, x.schedule.p
    stage_of = x.schedule.placement[:, 0].astype(np.int64)
    update = x.optimizer_seconds(stage_of)
    if not traffic.replicated:
        return 0.0, np.zeros(s), float(update.max())
    before, options = 0.0, traffic.options
    pieces = _pieces(x)
    each = traffic.reduce(pieces).seconds
    whole = own @ (each * pieces + between_s)
    last = (each + between_s / pieces)[own.argmax(axis=1)]  # the shallowest part is reduced last
    last *= not (plan.zero == 3 and x.schedule.split_backward)  # how much of it is left then is not followed
    if plan.zero == 3:
        before = float(traffic.gather(pieces).seconds[0])
    elif traffic.gather_at_start:
        before = float(traffic.gather(traffic.bucket_counts()).seconds[0])
    elif plan.zero in (1, 2) and traffic.behaviour.shard_optimizer:
        update = update + own @ traffic.gather_seconds()
    if plan.zero == 3 or options.overlap_grad_reduce:
        tail = np.maximum(whole - _closing(x, hop_s), last)
    else:
        tail = whole
    return before, tail, float(update.max())


def _closing(x: ReplicaGroup, hop_s: float) -> Floats:
    """(S,): most seconds from a stage's first backward that completes a gradient to its last instruction."""
    table: InstructionTable = x.schedule
    if x.plan.schedule not in _REGULAR or table.m < min(2 * table.p, x.plan.m):
        return np.full(table.p, np.inf)
    part_of = np.zeros((table.p, table.v), np.int64)
    part_of[table.placement[:, 0], table.placement[:, 1]] = np.arange(len(x.stages.layers))
    part = part_of[table.stage, table.chunk]
    final = (table.kind == (W if table.split_backward else B)) & (table.micro_batch == table.m - 1)
    took = x.stages.seconds[table.kind.astype(np.int64), part] + hop_s
    out = np.zeros(table.p)
    for stage in range(table.p):
        rows = np.arange(table.stage_ptr[stage], table.stage_ptr[stage + 1])
        begun = rows[final[rows]][0]
        out[stage] = took[begun : table.stage_ptr[stage + 1]].sum()
    return out
