"""Data-parallel traffic as tasks of a step: buckets, gathers of sharded layers, averages of local steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats, Mask, Rows
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.schedules.blocks import block_of
from windtunnel.schedules.table import B, F, InstructionTable, W
from windtunnel.techniques.step_options import StepOptions
from windtunnel.training.data_parallel.comm_costs import DataParallelComm
from windtunnel.training.stage_costs.stage_costs import StageCosts
from windtunnel.training.task_builder import S_GATHER, S_REDUCE, T_GATHER, T_REDUCE, TaskBuilder


@dataclass(frozen=True, slots=True)
class FinalReductions:
    """The gradient reductions that end a step: one for each piece of each virtual stage. Shapes (n,)."""

    ids: Rows
    part: Rows
    piece: Rows
    key: Floats
    """Place in launch order."""
    pieces: Rows
    """(K,): pieces of each virtual stage."""


def bucketed_traffic(
    asm: TaskBuilder,
    parts: StageCosts,
    traffic: DataParallelComm,
    options: StepOptions,
    part: Rows,
    row: Rows,
    first_f: Rows,
    reduced: Rows,
    first_task: Rows,
    pieces: Rows,
    table: InstructionTable,
    finish: list[list[int]],
) -> FinalReductions:
    """DDP, ZeRO-1 and ZeRO-2: gradient buckets after the last backward, parameter buckets before the first forward."""
    k_total = len(parts.layers)
    stage_of = table.placement[:, 0]
    buckets = traffic.bucket_counts()  # a step may run in finer pieces than buckets, never in coarser ones
    if options.overlap_grad_reduce:
        count = buckets[part[reduced]]
        cuts = np.ones(k_total, np.int64)
        cuts[part[reduced]] = count
        t, up, out, sm, hbm = traffic.reduce(cuts)
        of_row = np.repeat(reduced, count)
        k = part[of_row]
        last = np.cumsum(count) - 1
        j = np.arange(len(k)) - np.repeat(last + 1 - count, count)
        full = -(-(j + 1) * pieces[of_row] // np.repeat(count, count)) - 1  # the piece that fills bucket j
        key = of_row * 4096.0 + full * 4 + 2
        ids = asm.add(
            key,
            stage_of[k],
            S_REDUCE,
            t[k],
            T_REDUCE,
            row=of_row,
            sm=sm[k],
            hbm=hbm[k],
            up=up[k],
            out=out[k],
        )
        asm.depend(ids, first_task[of_row] + full)
        latest = np.zeros(k_total, np.int64)
        np.maximum.at(latest, k, ids)
        for stage, task in zip(stage_of.tolist(), latest.tolist(), strict=True):
            finish[stage].append(task)
        if options.reduce_every_micro_batch:  # backward ends when its reduction has: what follows waits
            following = np.minimum(reduced + 1, len(table) - 1)
            same = (table.stage[following] == table.stage[reduced]) & (following > reduced)
            asm.depend(first_task[following[same]], ids[last[same]])
        final = of_row == _last_rows(k, of_row, k_total)[k]
        ended = FinalReductions(ids[final], k[final], j[final], key[final], cuts)
    else:
        t, up, out, sm, hbm = traffic.reduce(1.0)
        n = len(table)
        every = np.zeros(k_total, np.int64)
        for s in range(table.p):
            mine = np.flatnonzero(stage_of == s)
            ids = asm.add(
                np.full(len(mine), n * 4096.0 + 1),
                s,
                S_REDUCE,
                t[mine],
                T_REDUCE,
                sm=sm[mine],
                hbm=hbm[mine],
                up=up[mine],
                out=out[mine],
            )
            asm.depend(ids, finish[s][0])
            finish[s].append(int(ids[-1]))
            every[mine] = ids
        parts_of = np.arange(k_total)
        ended = FinalReductions(every, parts_of, 0 * parts_of, np.full(k_total, n * 4096.0 + 1), 0 * parts_of + 1)
    if traffic.gather_at_start:
        t, up, out, sm, hbm = traffic.gather(buckets)
        k = np.repeat(np.arange(k_total), buckets)
        j = np.arange(len(k)) - np.repeat(np.cumsum(buckets) - buckets, buckets)
        needed = j * pieces[first_f[k]] // buckets[k]  # the piece that needs bucket j first
        ids = asm.add(
            first_f[k] * 4096.0 + needed * 4,
            stage_of[k],
            S_GATHER,
            t[k],
            T_GATHER,
            row=first_f[k],
            sm=sm[k],
            hbm=hbm[k],
            up=up[k],
            out=out[k],
        )
        asm.depend(first_task[first_f[k]] + needed, ids)
    return ended


def averaged_traffic(
    asm: TaskBuilder, traffic: DataParallelComm, table: InstructionTable, finish: list[list[int]]
) -> None:
    """Local steps: this step's share of the round's average, beside everything or after the last backward."""
    assert traffic.local is not None
    t, up, out, sm, hbm = traffic.averaged()
    late, stage_of = traffic.local.late, table.placement[:, 0]
    for s in range(table.p):
        mine = np.flatnonzero(stage_of == s)
        key = np.full(len(mine), -1.0 if late else len(table) * 4096.0 + 1)
        ids = asm.add(key, s, S_REDUCE, t[mine], T_REDUCE, sm=sm[mine], hbm=hbm[mine], up=up[mine], out=out[mine])
        if not late:
            asm.depend(ids, finish[s][0])
        finish[s].append(int(ids[-1]))


def _last_rows(part: Rows, row: Rows, k_total: int) -> Rows:
    """Last instruction of each virtual stage, shape (K,)."""
    out = np.full(k_total, -1)
    np.maximum.at(out, part, row)
    return out


def _first_of_block(table: InstructionTable) -> Mask:
    """Rows that need parameters which are not there: the first of each block.

    A backward finds those of the chunk that its stage has just run forward.
    """
    block = block_of(table)
    rows = np.flatnonzero(block >= 0)
    first = np.zeros(len(table), np.bool_)
    first[rows[np.unique(block[rows], return_index=True)[1]]] = True
    held = np.full(table.p, -1)  # chunk of the latest forward of each stage
    for row in rows.tolist():
        s = int(table.stage[row])
        if table.kind[row] == F:
            held[s] = table.chunk[row]
        elif held[s] == table.chunk[row]:
            first[row] = False
    return first


def _last_of_block(table: InstructionTable) -> Mask:
    """Rows after which the gradients of a block of backwards are complete."""
    block = block_of(table)
    mine = np.flatnonzero(table.kind == B)
    ends = mine
    if table.split_backward:  # the weight gradient of the same micro-batch and chunk
        key = (table.stage.astype(np.int64) * table.v + table.chunk) * table.m + table.micro_batch
        weights = np.flatnonzero(table.kind == W)
        order = np.argsort(key[weights])
        ends = weights[order[np.searchsorted(key[weights][order], key[mine])]]
    last = np.zeros(int(block.max(initial=0)) + 1, np.int64)
    np.maximum.at(last, block[mine], ends)
    out = np.zeros(len(table), np.bool_)
    out[last[np.unique(block[mine])]] = True
    return out


def sharded_traffic(
    asm: TaskBuilder,
    parts: StageCosts,
    traffic: DataParallelComm,
    options: StepOptions,
    plan: ResolvedPlan,
    kind: Rows,
    part: Rows,
    row: Rows,
    compute: Rows,
    table: InstructionTable,
    finish: list[list[int]],
    m: int,
) -> tuple[FinalReductions, Rows]:
    """ZeRO-3/FSDP: gather each layer before it runs, forward and backward; scatter its gradient after backward.

    Returns:
        The reductions that end a step, and of each compute task the gather before it (−1 for none).
    """
    pieces = np.maximum(parts.layers, 1)
    first, second = traffic.gather(pieces), traffic.gather(pieces, again=True)
    rt, rup, rout, rsm, rhbm = traffic.reduce(pieces)
    xt, xout = traffic.between_slices(pieces)
    zt, zup, zout = traffic.once_a_step(pieces)
    of_task = part[row]
    task_kind = kind[row]
    backward = traffic.trainable > 0  # else the passes of a step of zeroth order
    needs = (task_kind == F) | ((task_kind == B) & plan.reshard_after_forward & backward)
    if not plan.reshard_after_forward:  # gathered once, for the first micro-batch's forward
        needs = (task_kind == F) & (table.micro_batch[row] == 0)
    # the last forward layer of a micro-batch is still gathered when its backward starts
    stage = table.stage[row]
    previous = np.concatenate([[-1], task_kind[:-1]])
    turned = (task_kind == B) & (previous == F) & (np.concatenate([[-1], stage[:-1]]) == stage)
    needs &= ~turned
    if plan.gather_block:
        needs &= _first_of_block(table)[row]
    g = np.flatnonzero(needs)
    k = of_task[g]
    late = options.gather_exposed if traffic.lists is None else 1.0  # each gather waits for the whole device
    ahead = 1.0 - late
    gather_host, reduce_host = traffic.launched()
    twice = np.ones(len(g))
    if traffic.lists is not None and plan.recompute.policy == "full":
        twice += traffic.lists.again * (task_kind[g] == B)
    in_backward = task_kind[g] == B
    by_kind = [np.where(in_backward, b[k], f[k]) * twice for f, b in zip(first, second, strict=True)]
    whole = [by_kind[i] for i in (0, 3, 4, 1, 2)]  # seconds, SMs, memory, scale-up, scale-out
    t, sm, hbm, up, out = (column * ahead for column in whole)
    depth = options.prefetch_depth if options.fsdp_prefetch else 1
    scatter, early, rest = S_REDUCE, g * 1.0, g + 0.25
    if plan.one_communicator:  # after the reduction before the latest compute it may overlap, ahead of the next one
        scatter, early = S_GATHER, g - depth + 0.9
        rest = np.maximum(g - 0.88, early + 0.01)
    ids = asm.add(early, stage[g], S_GATHER, t, T_GATHER, row=row[g], sm=sm, hbm=hbm, up=up, out=out)
    asm.depend(compute[g], ids)
    waits = ids
    if late:
        t, sm, hbm, up, out = (column * late for column in whole)
        waits = asm.add(
            rest,
            stage[g],
            S_GATHER,
            t + gather_host * twice,
            T_GATHER,
            row=row[g],
            sm=sm,
            hbm=hbm,
            up=up,
            out=out,
        )
        asm.depend(compute[g], waits)
        inner = (g >= 1) & (stage[np.maximum(g - 1, 0)] == stage[g])
        asm.depend(waits[inner], compute[g[inner] - 1])
    back = g - depth
    ok = (back >= 0) & (stage[np.maximum(back, 0)] == stage[g])
    asm.depend(ids[ok], compute[back[ok]])
    reduces = (task_kind == B) & backward
    if not options.sync_every_micro_batch or not plan.reshard_after_forward:
        reduces &= table.micro_batch[row] == m - 1
    if plan.gather_block:
        reduces = _last_of_block(table)[row]
    r = np.flatnonzero(reduces)
    k = of_task[r]
    ends = table.micro_batch[row[r]] == m - 1  # pieces whose reduction goes through all levels
    zt, zup, zout = (np.where(ends, column[k], 0.0) for column in (zt, zup, zout))
    if late or xt.any():  # host transfers are synchronous in the loop over layers
        waited = asm.add(
            r * 1.0,
            stage[r],
            scatter,
            rt[k] * late + xt[k] + reduce_host,
            T_REDUCE,
            row=row[r],
            sm=rsm[k] * late,
            hbm=rhbm[k] * late,
            up=rup[k] * late,
            out=rout[k] * late + xout[k],
        )
        asm.depend(waited, compute[r])
        following = np.minimum(r + 1, len(compute) - 1)
        inner = (following > r) & (stage[following] == stage[r])
        asm.depend(compute[following[inner]], waited[inner])
        if traffic.lists is not None:  # and so is the next gather, which waits for this reduction
            fetch = np.full(len(compute), -1, np.int64)
            fetch[g] = waits
            own = fetch[following[inner]]
            asm.depend(own[own >= 0], waited[inner][own >= 0])
    rid = asm.add(
        r + 0.25,
        stage[r],
        scatter,
        rt[k] * ahead + zt,
        T_REDUCE,
        row=row[r],
        sm=rsm[k] * ahead,
        hbm=rhbm[k] * ahead,
        up=rup[k] * ahead + zup,
        out=rout[k] * ahead + zout,
    )
    asm.depend(rid, compute[r])
    for s in range(table.p):
        mine = np.flatnonzero(stage[r] == s)
        if len(mine):
            finish[s].append(int(rid[mine[-1]]))
    final = table.micro_batch[row[r]] == m - 1
    if plan.gather_block:
        final = row[r] >= _last_rows(k, row[r], len(parts.layers))[k]
    r, k = r[final], k[final]
    nth = np.arange(len(r)) - np.searchsorted(row[r], row[r])  # rows rise along r
    first_gather = np.full(len(compute), -1, np.int64)
    first_gather[g] = ids
    return FinalReductions(rid[final], k, nth, r + 0.25, pieces), first_gather
