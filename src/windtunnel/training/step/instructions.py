"""Instructions of a pipeline schedule as rows, and the pieces that each is cut into: layers, buckets or the whole.

Tasks are put in launch order by keys: an instruction owns `KEYS_OF_ROW` of them and each of its pieces `KEYS_OF_PIECE`,
so that what belongs to a piece (its gather, its reduction, its copies) finds room next to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats, Rows
from windtunnel.machine_memory import require_bytes
from windtunnel.progress import expect
from windtunnel.schedules.table import B, F, InstructionTable, W
from windtunnel.training.offload.host_optimizer import is_spelt_out
from windtunnel.training.step.replica_group import ReplicaGroup

KEYS_OF_ROW = 65536.0
"""Enough for the pieces of an instruction over every layer that a model may have."""
KEYS_OF_PIECE = 4.0
_FINE_TASKS = 20_000
"""Steps with fewer layer passes than this are simulated layer by layer; larger ones by whole model chunks, except where
data-parallel communication or offloading needs layers."""


_BYTES_A_PIECE = 1000.0
"""Memory that a piece of an instruction takes while a step is put together: two or three tasks with all columns."""
_SECONDS_A_PIECE = 4e-6
"""Seconds of a laptop core for a piece, from building its tasks to their memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instructions:
    """n instructions of a schedule over K virtual stages, cut into t pieces that are computed one after the other."""

    schedule: InstructionTable
    kind: Rows
    """(n,): forward, backward or weight gradient."""
    virtual_stage: Rows
    """(n,): virtual stage in depth order."""
    row_of: Rows
    """(3, K, m): instruction of a kind, virtual stage and micro-batch; −1 for none."""
    stage_of: Rows
    """(K,): pipeline stage of each virtual stage."""
    pieces: Rows
    """(n,): pieces of each instruction."""
    row: Rows
    """(t,): instruction of each piece."""
    piece: Rows
    """(t,): position of each piece in its instruction."""
    first_task: Rows
    last_task: Rows
    """(n,): first and last piece of each instruction."""

    @property
    def gradient_kind(self) -> int:
        """The kind of instruction after which weight gradients are there."""
        return W if self.schedule.split_backward else B

    def first_forward(self) -> Rows:
        """(K,): first forward instruction of each virtual stage."""
        first = np.full(len(self.stage_of), len(self.schedule))
        rows = np.flatnonzero(self.kind == F)
        np.minimum.at(first, self.virtual_stage[rows], rows)
        return first

    def last_gradients(self) -> Rows:
        """(K,): last instruction of each virtual stage that computes gradients."""
        rows = np.flatnonzero(self.kind == self.gradient_kind)
        return last_rows(self.virtual_stage[rows], rows, len(self.stage_of))

    def piece_keys(self) -> Floats:
        """(t,): launch key at which each piece begins."""
        return self.row * KEYS_OF_ROW + self.piece * KEYS_OF_PIECE


def build_instructions(group: ReplicaGroup) -> Instructions:
    """Number the rows of a schedule and cut each into the pieces that the rest of the step needs."""
    schedule = group.schedule
    count = len(group.stages.layers)
    virtual_stage_of = np.zeros((schedule.p, schedule.v), np.int64)
    virtual_stage_of[schedule.placement[:, 0], schedule.placement[:, 1]] = np.arange(count)
    kind = schedule.kind.astype(np.int64)
    virtual_stage = virtual_stage_of[schedule.stage, schedule.chunk]
    row_of = np.full((3, count, schedule.m), -1, np.int64)
    row_of[kind, virtual_stage, schedule.micro_batch] = np.arange(len(schedule))
    whole = Instructions(
        schedule=schedule,
        kind=kind,
        virtual_stage=virtual_stage,
        row_of=row_of,
        stage_of=schedule.placement[:, 0].astype(np.int64),
        pieces=np.ones(len(schedule), np.int64),
        row=np.arange(len(schedule)),
        piece=np.zeros(len(schedule), np.int64),
        first_task=np.arange(len(schedule)),
        last_task=np.arange(len(schedule)),
    )
    pieces = _pieces(group, whole)
    count = int(pieces.sum())
    what = f"a step of {count:,} layer passes ({schedule.m:,} micro-batches on {schedule.p:,} stages)"
    require_bytes(count * _BYTES_A_PIECE, "training.global_batch", what)
    expect(what, count * _SECONDS_A_PIECE)
    return _cut(whole, pieces)


def last_rows(virtual_stage: Rows, row: Rows, count: int) -> Rows:
    """(K,): last of some instructions of each of `count` virtual stages, −1 for none."""
    last = np.full(count, -1)
    np.maximum.at(last, virtual_stage, row)
    return last


def reduced_rows(group: ReplicaGroup, instructions: Instructions) -> Rows:
    """Instructions after which gradients are reduced, under DDP, ZeRO-1 and ZeRO-2."""
    if group.comm.options.reduce_every_micro_batch:
        return np.flatnonzero(instructions.kind == instructions.gradient_kind)
    return instructions.last_gradients()


def _pieces(group: ReplicaGroup, whole: Instructions) -> Rows:
    """(n,): pieces of each instruction."""
    plan, comm = group.plan, group.comm
    pieces = np.ones(len(whole.schedule), np.int64)
    buckets = comm.bucket_counts()
    sharded = plan.zero == 3 and comm.replicated
    layers = np.maximum(group.stages.layers, 1).astype(np.int64)
    offload = plan.offload
    leaves = offload.gradients > 0 or (is_spelt_out(offload) and offload.update == "beside_backward")
    by_layer = sharded or offload.activations > 0 or offload.params > 0 or leaves
    if by_layer or len(pieces) * int(layers.max()) <= _FINE_TASKS:
        cut = whole.kind != W
        pieces[cut] = layers[whole.virtual_stage[cut]]
    if comm.replicated and not sharded:
        if comm.options.overlap_grad_reduce:
            reduced = reduced_rows(group, whole)
            pieces[reduced] = np.maximum(pieces[reduced], buckets[whole.virtual_stage[reduced]])
        if comm.gather_at_start:
            first = whole.first_forward()
            pieces[first] = np.maximum(pieces[first], buckets)
    return pieces


def _cut(whole: Instructions, pieces: Rows) -> Instructions:
    """Instructions with as many pieces as given."""
    first_task = np.concatenate([[0], np.cumsum(pieces)[:-1]])
    row = np.repeat(np.arange(len(pieces)), pieces)
    return Instructions(
        schedule=whole.schedule,
        kind=whole.kind,
        virtual_stage=whole.virtual_stage,
        row_of=whole.row_of,
        stage_of=whole.stage_of,
        pieces=pieces,
        row=row,
        piece=np.arange(len(row)) - first_task[row],
        first_task=first_task,
        last_task=first_task + pieces - 1,
    )
