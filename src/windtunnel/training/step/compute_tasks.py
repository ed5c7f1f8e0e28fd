"""Compute tasks of a step: the pieces of every forward, backward and weight-gradient instruction."""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats, Mask, Rows
from windtunnel.program.comm_work import CommWork
from windtunnel.schedules.table import F
from windtunnel.training.step.forward_backward_overlap import OverlappedPair, pairs_of
from windtunnel.training.step.instructions import Instructions, build_instructions
from windtunnel.training.step.replica_group import ReplicaGroup
from windtunnel.training.step.replica_tasks import ReplicaTasks
from windtunnel.training.task_builder import S_COMPUTE, T_F, TaskBuilder

_LEAST_GAP = 0.003
"""Share of a piece below which its exposed transfers are not counted apart."""


def add_compute_tasks(tasks: TaskBuilder, group: ReplicaGroup) -> ReplicaTasks:
    """Add the pieces of all instructions, each with the mean demands of its segments on shared rates.

    Where other communication runs next to a piece, it is two tasks: a phase of kernels, which give way to that
    communication, and a phase of exposed transfers.
    """
    instructions = build_instructions(group)
    pair_of: Rows | None = None
    pairs: tuple[OverlappedPair, ...] = ()
    seconds = _piece_seconds(group, instructions)
    if group.schedule.joined is not None:
        pair_of, pairs = pairs_of(
            group.stages, group.schedule, instructions.virtual_stage, group.cluster, group.coefficients
        )
        slowdown = np.array([pair.seconds / pair.alone_s if pair.alone_s else 1.0 for pair in pairs] + [1.0])
        seconds = seconds * slowdown[pair_of[instructions.row]]
    share = _share_of_work(group, instructions, seconds)
    compute = _add_pieces(
        tasks, group, instructions, seconds, share, _exposed_s(group, instructions, seconds, share, pair_of)
    )
    return ReplicaTasks(
        group=group,
        instructions=instructions,
        first_stage=tasks.first_stage,
        first_id=tasks.first_id,
        compute=compute,
        finish=[[int(instructions.last_task[end - 1])] for end in group.schedule.stage_ptr[1:].tolist()],
        pair_of=pair_of,
        pairs=pairs,
    )


def rows_beside_comm(group: ReplicaGroup) -> Mask:
    """(n,): instructions that data-parallel communication can run next to.

    These are the first and the last micro-batches, and all of them where every micro-batch gathers or reduces.
    """
    schedule, sharded = group.schedule, group.plan.zero == 3 and group.comm.replicated
    if sharded or group.comm.options.reduce_every_micro_batch:
        return np.ones(len(schedule), np.bool_)
    return np.asarray((schedule.micro_batch < schedule.p) | (schedule.micro_batch >= schedule.m - schedule.p))


def _piece_seconds(group: ReplicaGroup, instructions: Instructions) -> Floats:
    """(t,): seconds of each piece; the embedding and the head belong to the outermost pieces."""
    stages, depth = group.stages, group.schedule.depth
    kind, virtual_stage, row = instructions.kind, instructions.virtual_stage, instructions.row
    pieces = instructions.pieces[row]
    head = np.where(virtual_stage % depth == depth - 1, stages.head_s[kind], 0.0)
    embedding = np.where(virtual_stage % depth == 0, stages.embedding_s[kind], 0.0)
    body = stages.seconds[kind, virtual_stage] - head - embedding
    seconds = body[row] / pieces
    backward = kind[row] != F
    at_first, at_last = instructions.piece == 0, instructions.piece == pieces - 1
    seconds = seconds + np.where(np.where(backward, at_first, at_last), head[row], 0.0)
    seconds = seconds + np.where(np.where(backward, at_last, at_first), embedding[row], 0.0)
    if stages.factor is not None:
        seconds = seconds * stages.factor[kind, virtual_stage, group.schedule.micro_batch][row]
    return seconds


def _share_of_work(group: ReplicaGroup, instructions: Instructions, seconds: Floats) -> Floats:
    """(t,): share of its instruction's work that each piece does; 0 where no other communication can meet it."""
    plan, comm, row = group.plan, group.comm, instructions.row
    sharded = plan.zero == 3 and comm.replicated
    overlaps = comm.options.overlap_grad_reduce or comm.gather_at_start or sharded
    busy = (rows_beside_comm(group) & comm.replicated & overlaps)[row]
    whole = group.stages.seconds[instructions.kind, instructions.virtual_stage][row]
    return np.where(busy, seconds / np.maximum(whole, 1e-30), 0.0)


def _exposed_s(
    group: ReplicaGroup, instructions: Instructions, seconds: Floats, share: Floats, pair_of: Rows | None
) -> Floats:
    """(t,): seconds of exposed transfers of each piece, where they are counted apart from its kernels."""
    row = instructions.row
    gap_share = group.stages.gap_share()[instructions.kind, instructions.virtual_stage][row]
    gap = np.where(share > 0, seconds * gap_share, 0.0)
    gap = np.where(gap > _LEAST_GAP * seconds, gap, 0.0)
    if pair_of is not None:  # exchanges of a pair run next to kernels already
        gap = np.where(pair_of[row] >= 0, 0.0, gap)
    return gap


def _add_pieces(
    tasks: TaskBuilder,
    group: ReplicaGroup,
    instructions: Instructions,
    seconds: Floats,
    share: Floats,
    exposed_s: Floats,
) -> Rows:
    """Add the tasks of all pieces and return the first of each, shape (t,)."""
    row, keys = instructions.row, instructions.piece_keys()
    whole = group.stages.work[instructions.kind, instructions.virtual_stage][row]
    split = exposed_s > 0
    sent = np.where(split, 0.0, share)
    kernels = CommWork(
        seconds=seconds - exposed_s,
        scale_up_bytes=whole.scale_up_bytes * sent,
        scale_out_bytes=whole.scale_out_bytes * sent,
        sm_seconds=np.where(split, seconds - exposed_s, whole.sm_seconds * share),
        hbm_bytes=whole.hbm_bytes * share,
    )
    stage = group.schedule.stage[row]
    compute = tasks.add(keys + 1, stage, S_COMPUTE, kernels, T_F, row=row)
    if split.any():
        at = np.flatnonzero(split)
        transfers = CommWork.of(
            exposed_s[at],
            scale_up_bytes=whole.scale_up_bytes[at] * share[at],
            scale_out_bytes=whole.scale_out_bytes[at] * share[at],
        )
        tails = tasks.add(keys[at] + 1.5, stage[at], S_COMPUTE, transfers, T_F, row=row[at])
        tasks.ends_with(compute[at], tails)
    return compute
