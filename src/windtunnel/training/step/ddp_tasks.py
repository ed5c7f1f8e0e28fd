"""Communication of DDP, ZeRO-1 and ZeRO-2: gradient buckets after backward, parameter buckets before forward."""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Rows
from windtunnel.training.step.instructions import KEYS_OF_PIECE, KEYS_OF_ROW, last_rows, reduced_rows
from windtunnel.training.step.replica_tasks import FinalReductions, ReplicaTasks
from windtunnel.training.task_builder import S_GATHER, S_REDUCE, T_GATHER, T_REDUCE, TaskBuilder


def add_ddp_tasks(tasks: TaskBuilder, replica: ReplicaTasks) -> None:
    """Add gradient buckets after the last backward, and parameter buckets before the first forward."""
    comm = replica.group.comm
    inside = comm.options.overlap_grad_reduce or comm.options.reduce_every_micro_batch
    replica.reductions = _reductions_inside(tasks, replica) if inside else _late_reductions(tasks, replica)
    if comm.gather_at_start:
        _add_gathers(tasks, replica)


def _reductions_inside(tasks: TaskBuilder, replica: ReplicaTasks) -> FinalReductions:
    """Each bucket is reduced as soon as the piece that fills it has run; without overlap all after each backward."""
    group, instructions = replica.group, replica.instructions
    stage_of, count = instructions.stage_of, len(instructions.stage_of)
    reduced = reduced_rows(group, instructions)
    # a step may run in finer pieces than buckets, never in coarser ones
    buckets = group.comm.bucket_counts()[instructions.virtual_stage[reduced]]
    if not group.comm.options.overlap_grad_reduce:
        buckets = np.ones_like(buckets)
    pieces = np.ones(count, np.int64)
    pieces[instructions.virtual_stage[reduced]] = buckets
    row = np.repeat(reduced, buckets)
    virtual_stage = instructions.virtual_stage[row]
    last = np.cumsum(buckets) - 1
    bucket = np.arange(len(row)) - np.repeat(last + 1 - buckets, buckets)
    filled_by = -(-(bucket + 1) * instructions.pieces[row] // np.repeat(buckets, buckets)) - 1
    key = row * KEYS_OF_ROW + filled_by * KEYS_OF_PIECE + 2
    work = group.comm.reduce(pieces)[virtual_stage]
    ids = tasks.add(key, stage_of[virtual_stage], S_REDUCE, work, T_REDUCE, row=row)
    tasks.depend(ids, instructions.first_task[row] + filled_by)
    latest = np.zeros(count, np.int64)
    np.maximum.at(latest, virtual_stage, ids)
    for stage, task in zip(stage_of.tolist(), latest.tolist(), strict=True):
        replica.finish[stage].append(task)
    if group.comm.options.reduce_every_micro_batch:
        _wait_for_reductions(tasks, replica, reduced, ids[last])
    final = row == last_rows(virtual_stage, row, count)[virtual_stage]
    return FinalReductions(ids[final], virtual_stage[final], bucket[final], key[final], pieces)


def _wait_for_reductions(tasks: TaskBuilder, replica: ReplicaTasks, reduced: Rows, last: Rows) -> None:
    """Let the instruction after each backward wait for the reduction of that backward's gradients.

    Args:
        tasks: The step's tasks so far.
        replica: The replica that the instructions belong to.
        reduced: Instruction rows whose gradients are reduced.
        last: Task that reduces the last bucket of each of those rows.
    """
    schedule = replica.group.schedule
    following = np.minimum(reduced + 1, len(schedule) - 1)
    same = (schedule.stage[following] == schedule.stage[reduced]) & (following > reduced)
    tasks.depend(replica.instructions.first_task[following[same]], last[same])


def _late_reductions(tasks: TaskBuilder, replica: ReplicaTasks) -> FinalReductions:
    """All gradients of a virtual stage are reduced at once, after the last backward of its stage."""
    schedule, stage_of = replica.group.schedule, replica.instructions.stage_of
    work, key = replica.group.comm.reduce(1.0), len(schedule) * KEYS_OF_ROW + 1
    every = np.zeros(len(stage_of), np.int64)
    for stage in range(schedule.p):
        mine = np.flatnonzero(stage_of == stage)
        ids = tasks.add(np.full(len(mine), key), stage, S_REDUCE, work[mine], T_REDUCE)
        tasks.depend(ids, replica.finish[stage][0])
        replica.finish[stage].append(int(ids[-1]))
        every[mine] = ids
    virtual_stages = np.arange(len(stage_of))
    return FinalReductions(
        every, virtual_stages, 0 * virtual_stages, np.full(len(stage_of), key), 0 * virtual_stages + 1
    )


def _add_gathers(tasks: TaskBuilder, replica: ReplicaTasks) -> None:
    """Each parameter bucket is gathered before the piece of the first forward that needs it first."""
    instructions, comm = replica.instructions, replica.group.comm
    buckets, first_forward = comm.bucket_counts(), instructions.first_forward()
    virtual_stage = np.repeat(np.arange(len(buckets)), buckets)
    bucket = np.arange(len(virtual_stage)) - np.repeat(np.cumsum(buckets) - buckets, buckets)
    row = first_forward[virtual_stage]
    needed_by = bucket * instructions.pieces[row] // buckets[virtual_stage]
    ids = tasks.add(
        row * KEYS_OF_ROW + needed_by * KEYS_OF_PIECE,
        instructions.stage_of[virtual_stage],
        S_GATHER,
        comm.gather(buckets)[virtual_stage],
        T_GATHER,
        row=row,
    )
    tasks.depend(instructions.first_task[row] + needed_by, ids)
