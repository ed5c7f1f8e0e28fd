"""Gradients that leave a device, and optimizer steps of the host that run beside the device, as tasks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats, Rows
from windtunnel.cost.memory_bound import optimizer_time_s
from windtunnel.schedules.table import B, InstructionTable, W
from windtunnel.training.step.offload_tasks import Copies
from windtunnel.training.step.replica_tasks import ReplicaGroup, ReplicaTasks
from windtunnel.training.task_builder import S_COMPUTE, S_HOST, T_OFFLOAD, T_OPTIMIZER, TaskBuilder

BUFFERS = 2
"""Groups of states that are in flight at once in each direction (double buffering)."""
MOST_GROUPS = 256
"""Groups that an update is cut into at most, so that a step stays small."""


@dataclass(frozen=True, slots=True)
class Gradients:
    """The last gradients of a step: pieces that exist once for the whole batch. Shapes (n,)."""

    ready: Rows
    """Task after which a piece is there."""
    part: Rows
    pieces: Floats
    """Pieces of the virtual stage."""
    key: Floats
    """Place in launch order."""


def final_gradients(laid: ReplicaTasks) -> Gradients:
    """Where each piece of the last gradients comes from: its reduction, or where nothing is reduced its backward."""
    x, reduced = laid.replicas, laid.reduced
    if reduced is not None:
        key = reduced.key
        if x.plan.zero == 3:  # gathers and reductions of sharded layers are counted by layer pass
            at = key.astype(np.int64)
            key = laid.row[at] * 4096.0 + (at - laid.first_task[laid.row[at]]) * 4.0 + 2.2
        return Gradients(reduced.ids, reduced.part, reduced.pieces[reduced.part].astype(np.float64), key)
    last = last_rows(x.schedule, laid.kind, laid.part, len(x.stages.layers))
    count = (laid.last_task - laid.first_task + 1)[last]
    of_row = np.repeat(last, count)
    piece = np.arange(len(of_row)) - np.repeat(np.cumsum(count) - count, count)
    ready = laid.first_task[of_row] + piece
    return Gradients(
        laid.compute[ready],
        laid.part[of_row],
        np.repeat(count, count).astype(np.float64),
        of_row * 4096.0 + piece * 4.0 + 2.2,
    )


def last_rows(table: InstructionTable, kind: Rows, part: Rows, parts: int) -> Rows:
    """Last instruction of each virtual stage that computes gradients, shape (K,)."""
    last = np.full(parts, -1)
    rows = np.flatnonzero(kind == (W if table.split_backward else B))
    np.maximum.at(last, part[rows], rows)
    return last


def early_gradients(asm: TaskBuilder, laid: ReplicaTasks) -> None:
    """Gradients of micro-batches before the last leave piece by piece; computation waits for the buffers they leave."""
    x = laid.replicas
    offload, table = x.plan.offload, x.schedule
    kind = W if table.split_backward else B
    last = last_rows(table, laid.kind, laid.part, len(x.stages.layers))
    count = laid.last_task - laid.first_task + 1
    early = np.flatnonzero((laid.kind[laid.row] == kind) & ~np.isin(laid.row, last))
    if not len(early):
        return
    row = laid.row[early]
    part = laid.part[row]
    traffic = x.traffic
    whole = (x.stages.dense_params + x.stages.expert_params) * traffic.trainable
    params = traffic.updated() if x.plan.zero >= 2 else whole
    nbytes = params[part] / count[row] * traffic.options.grad_bytes * offload.gradients
    piece = early - laid.first_task[row]
    begin, _ = Copies(asm, x.plan, x.cluster).outward(
        row * 4096.0 + piece * 4.0 + 2.2, table.stage[row], nbytes, offload.tier_of("gradients"), row
    )
    asm.depend(begin, laid.compute[early])
    after = early + offload.prefetch_layers
    ok = after < len(laid.row)
    ok &= laid.row[np.minimum(after, len(laid.row) - 1)] == row
    asm.depend(laid.compute[after[ok]], begin[ok])


def beside_backward(asm: TaskBuilder, laid: ReplicaTasks) -> list[Rows]:
    """The last gradients go down piece by piece, and the host updates each piece as it arrives.

    Returns:
        Per stage, tasks without which the step has not ended.
    """
    x = laid.replicas
    offload, traffic = x.plan.offload, x.traffic
    grads, copies = final_gradients(laid), Copies(asm, x.plan, x.cluster)
    stage = laid.stage_of[grads.part]
    away = offload.optimizer if offload.update == "beside_backward" else 0.0
    params = traffic.updated()[grads.part] / grads.pieces
    leaving = max(away, offload.gradients)
    tier = offload.tier_of("gradients") if offload.gradients else "host"
    begin, down = copies.outward(grads.key + 0.1, stage, params * traffic.options.grad_bytes * leaving, tier)
    asm.depend(begin, grads.ready)
    if not away:
        return [down[stage == s] for s in range(x.schedule.p)]
    cost, mine = traffic.host_update(), params * away
    seconds = mine * cost.compute
    update = asm.add(grads.key + 0.2, stage, S_HOST, seconds, T_OFFLOAD, host=mine * cost.moved_bytes)
    asm.depend(update, down)
    ends = [update]
    if cost.read or cost.write:
        scale = 1.0 if x.cluster.storage is not None else cost.moved_bytes / cost.state_bytes
        size = mine * cost.state_bytes * scale
        read = copies.read(grads.key + 0.05, stage, size)
        asm.depend(update, read)
        written = copies.write(grads.key + 0.3, stage, size)
        asm.depend(written, update)
        for s in range(x.schedule.p):  # a buffer is free again once it is written
            here = np.flatnonzero(stage == s)
            here = here[np.argsort(grads.key[here], kind="stable")]
            asm.depend(read[here[BUFFERS:]], written[here[:-BUFFERS]])
        ends.append(written)
    if cost.weight_bytes:
        _, up = copies.inward(grads.key + 0.25, stage, mine * cost.weight_bytes, "host")
        asm.depend(up, update)
        ends.append(up)
    return [np.concatenate([ids[stage == s] for ids in ends]) for s in range(x.schedule.p)]


def shared_update(asm: TaskBuilder, x: ReplicaGroup, stage_of: Rows, barrier: Rows, key: float) -> list[Rows]:
    """Groups of parameters, some updated on the device and the others on the host, all links and both at work.

    Source: Maurya et al. 2024 (arXiv 2410.21316), section 4.

    Returns:
        Per stage, tasks without which the step has not ended.
    """
    offload, traffic, cost = x.plan.offload, x.traffic, x.traffic.host_update()
    copies, tier = Copies(asm, x.plan, x.cluster), offload.tier_of("optimizer")
    per_stage = np.bincount(stage_of, weights=traffic.updated(), minlength=x.schedule.p) * offload.optimizer
    ends: list[Rows] = []
    back_s = cost.on_device(x.cluster, offload)
    for s, total in enumerate(per_stage.tolist()):
        n = int(min(max(-(-total // offload.update_subgroup), 1), MOST_GROUPS))
        params, i = total / n, np.arange(n)
        here = np.floor((i + 1) * offload.update_on_device + 1e-9) > np.floor(i * offload.update_on_device + 1e-9)
        own, other = np.arange(here.sum()), np.arange((~here).sum())
        each_own, each_other = params * back_s, params * max(cost.compute, cost.read, cost.write)
        # copies of both kinds are in the order in which they can be expected to be ready
        scale = 0.4 / max((len(own) + 1) * each_own + (len(other) + 1) * each_other, 1e-30)
        at_own, at_other, tiny = key + own * each_own * scale, key + other * each_other * scale, 1e-4
        done: list[Rows] = []
        if len(own):
            size = params * (cost.state_bytes + traffic.options.grad_bytes * offload.gradients)
            begin, arrived = copies.inward(at_own, s, size, tier)
            seconds = optimizer_time_s(x.cluster.device, x.coefficients, params, cost.moved_bytes)
            update = asm.add(at_own, s, S_COMPUTE, seconds, T_OPTIMIZER, hbm=params * cost.moved_bytes)
            back, stored = copies.outward(at_own + each_own * scale + tiny, s, params * cost.state_bytes, tier)
            asm.depend(begin, barrier[0])
            asm.depend(update, arrived)
            asm.depend(back, update)
            asm.depend(begin[BUFFERS:], stored[:-BUFFERS])
            done += [stored]
        if len(other):
            begin, down = copies.outward(at_other, s, params * cost.gradient_bytes, "host")
            update = asm.add(at_other, s, S_HOST, params * cost.compute, T_OFFLOAD, host=params * cost.moved_bytes)
            _, up = copies.inward(at_other + each_other * scale + tiny, s, params * cost.weight_bytes, "host")
            asm.depend(begin, barrier[0])
            asm.depend(update, down)
            asm.depend(up, update)
            if cost.read:
                read = copies.read(at_other, s, params * cost.state_bytes)
                written = copies.write(at_other + each_other * scale + tiny, s, params * cost.state_bytes)
                asm.depend(read, barrier[0])
                asm.depend(update, read)
                asm.depend(written, update)
                asm.depend(read[BUFFERS:], written[:-BUFFERS])
                done += [written]
            done += [up]
        ends.append(np.concatenate(done))
    return ends
