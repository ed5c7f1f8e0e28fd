"""Communication of ZeRO-3 and FSDP: gather each layer before it runs, scatter its gradient after backward."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats, Int32s, Mask, Rows
from windtunnel.program.comm_work import CommWork
from windtunnel.schedules.blocks import block_of
from windtunnel.schedules.table import B, F, InstructionTable, W
from windtunnel.training.step.instructions import last_rows
from windtunnel.training.step.replica_group import ReplicaGroup
from windtunnel.training.step.replica_tasks import FinalReductions, ReplicaTasks
from windtunnel.training.task_builder import S_GATHER, S_REDUCE, T_GATHER, T_REDUCE, TaskBuilder


@dataclass(frozen=True, slots=True)
class _Timing:
    """How far gathers run ahead of computation, and how much of them does not."""

    depth: int
    """Layers that may be gathered ahead."""
    exposed: float
    """Share of each gather and reduction that computation waits for: 1 where each waits for the whole device."""
    gather_host_s: float
    reduce_host_s: float
    """Seconds of one layer in which the device waits for the host, next to its gather and next to its reduction."""

    @classmethod
    def of(cls, group: ReplicaGroup) -> _Timing:
        """The timing of a plan."""
        options = group.comm.options
        gather_host_s, reduce_host_s = group.comm.launched()
        return cls(
            options.prefetch_depth if options.fsdp_prefetch else 1,
            options.gather_exposed if group.comm.lists is None else 1.0,
            gather_host_s,
            reduce_host_s,
        )


@dataclass(frozen=True, slots=True)
class _Gathers:
    """Gathers of parameters, one before each piece that needs them. Shapes (g,)."""

    position: Rows
    """Piece that each comes before."""
    first: Rows
    """Task that begins each."""
    last: Rows
    """Task that ends each: the exposed part where there is one."""

    def by_piece(self, tasks: Rows, pieces: int) -> Rows:
        """(t,): `tasks` at the pieces that they come before, −1 elsewhere."""
        found = np.full(pieces, -1, np.int64)
        found[self.position] = tasks
        return found


def add_zero3_tasks(tasks: TaskBuilder, replica: ReplicaTasks) -> Rows:
    """Add the gathers and reductions of every layer.

    Returns:
        (t,): the gather before each compute task, −1 for none.
    """
    timing = _Timing.of(replica.group)
    gathers = _add_gathers(tasks, replica, timing)
    _add_reductions(tasks, replica, timing, gathers)
    return gathers.by_piece(gathers.first, len(replica.compute))


def _add_gathers(tasks: TaskBuilder, replica: ReplicaTasks, timing: _Timing) -> _Gathers:
    """A gather that runs ahead as far as prefetching allows, and the part of it that computation waits for."""
    group, instructions, compute = replica.group, replica.instructions, replica.compute
    row, stage = instructions.row, group.schedule.stage[instructions.row]
    at = np.flatnonzero(_needs_gather(replica))
    work, repeats = _gather_work(replica, at)
    ahead_key, exposed_key = at * 1.0, at + 0.25
    if group.plan.one_communicator:
        # after the reduction before the latest compute it may overlap, ahead of the next one
        ahead_key = at - timing.depth + 0.9
        exposed_key = np.maximum(at - 0.88, ahead_key + 0.01)
    ahead = work * (1.0 - timing.exposed)
    first = tasks.add(ahead_key, stage[at], S_GATHER, ahead, T_GATHER, row=row[at])
    tasks.depend(compute[at], first)
    last = first
    if timing.exposed:
        exposed = (work * timing.exposed).waiting_on(timing.gather_host_s * repeats)
        last = tasks.add(exposed_key, stage[at], S_GATHER, exposed, T_GATHER, row=row[at])
        tasks.depend(compute[at], last)
        inner = (at >= 1) & (stage[np.maximum(at - 1, 0)] == stage[at])
        tasks.depend(last[inner], compute[at[inner] - 1])
    before = at - timing.depth
    same_stage = (before >= 0) & (stage[np.maximum(before, 0)] == stage[at])
    tasks.depend(first[same_stage], compute[before[same_stage]])
    return _Gathers(at, first, last)


def _needs_gather(replica: ReplicaTasks) -> Mask:
    """(t,): pieces whose parameters are not there when they run."""
    group, instructions = replica.group, replica.instructions
    plan, schedule, row = group.plan, group.schedule, instructions.row
    kind, stage = instructions.kind[row], schedule.stage[row]
    backward = group.comm.trainable > 0  # else the passes of a step of zeroth order
    needs = (kind == F) | ((kind == B) & plan.reshard_after_forward & backward)
    if not plan.reshard_after_forward:  # gathered once, for the first micro-batch's forward
        needs = (kind == F) & (schedule.micro_batch[row] == 0)
    # the last forward layer of a micro-batch is still gathered when its backward starts
    previous = np.concatenate([[-1], kind[:-1]])
    needs &= ~((kind == B) & (previous == F) & (np.concatenate([[-1], stage[:-1]]) == stage))
    if plan.gather_block:
        needs &= _first_of_block(schedule)[row]
    return np.asarray(needs)


def _gather_work(replica: ReplicaTasks, at: Rows) -> tuple[CommWork, Floats]:
    """Work of the gathers before some pieces, and how often each is repeated where backward gathers a second time."""
    group, instructions = replica.group, replica.instructions
    comm, row = group.comm, instructions.row[at]
    in_backward = instructions.kind[row] == B
    repeats = np.ones(len(at))
    if comm.lists is not None and group.plan.recompute.policy == "full":
        repeats += comm.lists.second_gather * in_backward
    pieces, virtual_stage = np.maximum(group.stages.layers, 1), instructions.virtual_stage[row]
    forward, backward = comm.gather(pieces), comm.gather(pieces, for_backward=True)
    return CommWork.choose(in_backward, backward[virtual_stage], forward[virtual_stage]) * repeats, repeats


def _add_reductions(tasks: TaskBuilder, replica: ReplicaTasks, timing: _Timing, gathers: _Gathers) -> None:
    """Scatter the gradients of every layer, and note the reductions that end the step."""
    group, instructions = replica.group, replica.instructions
    comm, schedule = group.comm, group.schedule
    pieces = np.maximum(group.stages.layers, 1)
    at = np.flatnonzero(_reduces(replica))
    row = instructions.row[at]
    stage, virtual_stage = schedule.stage[row], instructions.virtual_stage[row]
    stream = S_GATHER if group.plan.one_communicator else S_REDUCE
    work, slices = comm.reduce(pieces), comm.between_slices(pieces)
    if timing.exposed or slices.seconds.any():  # host transfers are synchronous in the loop over layers
        exposed = (work * timing.exposed + slices).waiting_on(timing.reduce_host_s)
        waited = tasks.add(at * 1.0, stage, stream, exposed[virtual_stage], T_REDUCE, row=row)
        _wait_for_reductions(tasks, replica, at, waited, gathers)
    last_micro_batch = schedule.micro_batch[row] == schedule.m - 1  # its reductions go through all levels
    through_levels = comm.once_a_step(pieces)[virtual_stage].where(last_micro_batch)
    beside = (work * (1.0 - timing.exposed))[virtual_stage] + through_levels
    ids = tasks.add(at + 0.25, stage, stream, beside, T_REDUCE, row=row)
    tasks.depend(ids, replica.compute[at])
    _note_last_tasks(replica, stage, ids)
    final = last_micro_batch
    if group.plan.gather_block:
        final = row >= last_rows(virtual_stage, row, len(pieces))[virtual_stage]
    piece = np.arange(len(row[final])) - np.searchsorted(row[final], row[final])  # rows rise
    replica.reductions = FinalReductions(ids[final], virtual_stage[final], piece, at[final] + 0.25, pieces)


def _note_last_tasks(replica: ReplicaTasks, stage: Int32s, ids: Rows) -> None:
    """Let the end of each pipeline stage wait for the last of its reductions.

    Args:
        replica: The replica that the tasks belong to.
        stage: (t,) pipeline stage of each task.
        ids: (t,) tasks in the order in which they run.
    """
    for s in range(replica.group.schedule.p):
        own = np.flatnonzero(stage == s)
        if len(own):
            replica.finish[s].append(int(ids[own[-1]]))


def _reduces(replica: ReplicaTasks) -> Mask:
    """(t,): pieces after which gradients are reduced."""
    group, row = replica.group, replica.instructions.row
    plan, schedule = group.plan, group.schedule
    if plan.gather_block:
        return _last_of_block(schedule)[row]
    reduces = (replica.instructions.kind[row] == B) & (group.comm.trainable > 0)
    if not group.comm.options.sync_every_micro_batch or not plan.reshard_after_forward:
        reduces &= schedule.micro_batch[row] == schedule.m - 1
    return np.asarray(reduces)


def _wait_for_reductions(tasks: TaskBuilder, replica: ReplicaTasks, at: Rows, waited: Rows, gathers: _Gathers) -> None:
    """What follows a piece waits for the exposed part of its reduction."""
    compute, stage = replica.compute, replica.group.schedule.stage[replica.instructions.row]
    tasks.depend(waited, compute[at])
    following = np.minimum(at + 1, len(compute) - 1)
    inner = (following > at) & (stage[following] == stage[at])
    tasks.depend(compute[following[inner]], waited[inner])
    if replica.group.comm.lists is not None:  # and so does the next gather
        next_gather = gathers.by_piece(gathers.last, len(compute))[following[inner]]
        tasks.depend(next_gather[next_gather >= 0], waited[inner][next_gather >= 0])


def _first_of_block(schedule: InstructionTable) -> Mask:
    """(n,): instructions that need parameters which are not there: the first of each block.

    A backward finds those of the chunk that its stage has just run forward.
    """
    block = block_of(schedule)
    rows = np.flatnonzero(block >= 0)
    first = np.zeros(len(schedule), np.bool_)
    first[rows[np.unique(block[rows], return_index=True)[1]]] = True
    latest = np.full(schedule.p, -1)  # chunk of the latest forward of each stage
    for row in rows.tolist():
        stage = int(schedule.stage[row])
        if schedule.kind[row] == F:
            latest[stage] = schedule.chunk[row]
        elif latest[stage] == schedule.chunk[row]:
            first[row] = False
    return first


def _last_of_block(schedule: InstructionTable) -> Mask:
    """(n,): instructions after which the gradients of a block of backwards are complete."""
    block = block_of(schedule)
    mine = np.flatnonzero(schedule.kind == B)
    ends = mine
    if schedule.split_backward:  # the weight gradient of the same micro-batch and chunk
        key = (schedule.stage.astype(np.int64) * schedule.v + schedule.chunk) * schedule.m + schedule.micro_batch
        weights = np.flatnonzero(schedule.kind == W)
        order = np.argsort(key[weights])
        ends = weights[order[np.searchsorted(key[weights][order], key[mine])]]
    last = np.zeros(int(block.max(initial=0)) + 1, np.int64)
    np.maximum.at(last, block[mine], ends)
    complete = np.zeros(len(schedule), np.bool_)
    complete[last[np.unique(block[mine])]] = True
    return complete
