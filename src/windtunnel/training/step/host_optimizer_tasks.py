"""Gradients that leave a device, and optimizer steps of the host that run next to the device, as tasks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats, Mask, Rows
from windtunnel.cost.memory_bound import optimizer_time_s
from windtunnel.program.comm_work import CommWork
from windtunnel.training.offload.host_optimizer import HostUpdate
from windtunnel.training.step.instructions import KEYS_OF_PIECE, KEYS_OF_ROW
from windtunnel.training.step.offload_tasks import Copies
from windtunnel.training.step.replica_tasks import ReplicaTasks
from windtunnel.training.task_builder import S_COMPUTE, S_HOST, T_OFFLOAD, T_OPTIMIZER, TaskBuilder

BUFFERS = 2
"""Groups of states that are in flight at once in each direction (double buffering)."""
MOST_GROUPS = 256
"""Groups that an update is cut into at most, so that a step stays small."""
_AFTER_NEXT = 1e-4
"""Launch keys by which the copy back of a group follows the copy in of the next one."""
_AFTER_REDUCTION = 2.2
"""Launch key of a piece's copy out, counted from the piece's own: after its reduction."""


@dataclass(frozen=True, slots=True)
class FinalGradients:
    """The last gradients of a step: pieces that exist once for the whole batch. Shapes (n,)."""

    ready: Rows
    """Task after which each piece is there."""
    virtual_stage: Rows
    pieces: Floats
    """Pieces of the virtual stage."""
    key: Floats
    """Position in launch order."""


def final_gradients(replica: ReplicaTasks) -> FinalGradients:
    """Where each piece of the last gradients comes from: its reduction, or its backward where nothing is reduced."""
    instructions, reductions = replica.instructions, replica.reductions
    if reductions is not None:
        key = reductions.key
        if replica.group.plan.zero == 3:  # gathers and reductions of sharded layers are counted by layer pass
            key = instructions.piece_keys()[key.astype(np.int64)] + _AFTER_REDUCTION
        pieces = reductions.pieces[reductions.virtual_stage].astype(np.float64)
        return FinalGradients(reductions.ids, reductions.virtual_stage, pieces, key)
    last = instructions.last_gradients()
    count = instructions.pieces[last]
    row = np.repeat(last, count)
    piece = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    return FinalGradients(
        replica.compute[instructions.first_task[row] + piece],
        instructions.virtual_stage[row],
        np.repeat(count, count).astype(np.float64),
        row * KEYS_OF_ROW + piece * KEYS_OF_PIECE + _AFTER_REDUCTION,
    )


def early_gradients(tasks: TaskBuilder, replica: ReplicaTasks) -> None:
    """Gradients of micro-batches before the last leave piece by piece; computation waits for the buffers they leave."""
    group, instructions = replica.group, replica.instructions
    offload, comm, stages = group.plan.offload, group.comm, group.stages
    last = instructions.last_gradients()
    of_gradients = instructions.kind[instructions.row] == instructions.gradient_kind
    early = np.flatnonzero(of_gradients & ~np.isin(instructions.row, last))
    if not len(early):
        return
    row = instructions.row[early]
    whole = (stages.dense_params + stages.expert_params) * comm.trainable
    params = comm.updated() if group.plan.zero >= 2 else whole
    per_piece = params[instructions.virtual_stage[row]] / instructions.pieces[row]
    nbytes = per_piece * comm.options.grad_bytes * offload.gradients
    keys, stage = instructions.piece_keys()[early] + _AFTER_REDUCTION, group.schedule.stage[row]
    copies = Copies(tasks, group.plan, group.cluster)
    begin, _ = copies.outward(keys, stage, nbytes, offload.tier_of("gradients"), row)
    tasks.depend(begin, replica.compute[early])
    after = early + offload.prefetch_layers
    same_row = after < len(instructions.row)
    same_row &= instructions.row[np.minimum(after, len(instructions.row) - 1)] == row
    tasks.depend(replica.compute[after[same_row]], begin[same_row])


def beside_backward(tasks: TaskBuilder, replica: ReplicaTasks) -> list[Rows]:
    """Copy the last gradients to the host piece by piece, and let the host update each piece as it arrives.

    Returns:
        Tasks of each stage without which the step has not ended.
    """
    group = replica.group
    offload, comm, count = group.plan.offload, group.comm, group.schedule.p
    gradients, copies = final_gradients(replica), Copies(tasks, group.plan, group.cluster)
    stage = replica.instructions.stage_of[gradients.virtual_stage]
    on_host = offload.optimizer if offload.update == "beside_backward" else 0.0
    params = comm.updated()[gradients.virtual_stage] / gradients.pieces
    sent = params * comm.options.grad_bytes * max(on_host, offload.gradients)
    tier = offload.tier_of("gradients") if offload.gradients else "host"
    begin, down = copies.outward(gradients.key + 0.1, stage, sent, tier)
    tasks.depend(begin, gradients.ready)
    if not on_host:
        return [down[stage == s] for s in range(count)]
    ends = _update_pieces(copies, replica, gradients, params * on_host, down)
    return [np.concatenate([ids[stage == s] for ids in ends]) for s in range(count)]


def _update_pieces(
    copies: Copies, replica: ReplicaTasks, gradients: FinalGradients, params: Floats, down: Rows
) -> list[Rows]:
    """Add the host's update of each piece of `params` parameters once its gradients are down, and what it moves."""
    tasks, cost = copies.tasks, replica.group.comm.host_update()
    key, stage = gradients.key, replica.instructions.stage_of[gradients.virtual_stage]
    host_bytes = params * cost.moved_bytes
    update = tasks.add(key + 0.2, stage, S_HOST, params * cost.compute, T_OFFLOAD, host_bytes=host_bytes)
    tasks.depend(update, down)
    ends = [update]
    if cost.read or cost.write:
        scale = 1.0 if copies.cluster.storage is not None else cost.moved_bytes / cost.state_bytes
        size = params * cost.state_bytes * scale
        read = copies.read(key + 0.05, stage, size)
        tasks.depend(update, read)
        written = copies.write(key + 0.3, stage, size)
        tasks.depend(written, update)
        for s in range(replica.group.schedule.p):  # a buffer is free again once it is written
            here = np.flatnonzero(stage == s)
            here = here[np.argsort(key[here], kind="stable")]
            tasks.depend(read[here[BUFFERS:]], written[here[:-BUFFERS]])
        ends.append(written)
    if cost.weight_bytes:
        _, up = copies.inward(key + 0.25, stage, params * cost.weight_bytes, "host")
        tasks.depend(up, update)
        ends.append(up)
    return ends


@dataclass(frozen=True, slots=True, kw_only=True)
class _SharedUpdate:
    """One stage's update, cut into groups of parameters. Shapes (groups of one kind,)."""

    copies: Copies
    cost: HostUpdate
    stage: int
    params: float
    """Parameters of one group."""
    barrier: Rows
    """Task that all gradients lead to."""
    device_key: Floats
    """Launch keys of the groups that the device updates."""
    device_step: float
    """Launch keys between two of them."""
    host_key: Floats
    """Launch keys of the groups that the host updates."""
    host_step: float
    """Launch keys between two of them."""


def shared_update(tasks: TaskBuilder, replica: ReplicaTasks, barrier: Rows, key: float) -> list[Rows]:
    """Update groups of parameters, some on the device and the others on the host, all links and both at work.

    Source: Maurya et al. 2024 (arXiv 2410.21316), section 4.

    Returns:
        Tasks of each stage without which the step has not ended.
    """
    group = replica.group
    offload, comm, cost = group.plan.offload, group.comm, group.comm.host_update()
    copies = Copies(tasks, group.plan, group.cluster)
    per_stage = np.bincount(replica.instructions.stage_of, weights=comm.updated(), minlength=group.schedule.p)
    ends: list[Rows] = []
    for stage, total in enumerate((per_stage * offload.optimizer).tolist()):
        groups = int(min(max(-(-total // offload.update_subgroup), 1), MOST_GROUPS))
        params, on_device = total / groups, _groups_on_device(groups, offload.update_on_device)
        own, other = np.arange(on_device.sum()), np.arange((~on_device).sum())
        device_s = params * cost.on_device(group.cluster, offload)
        host_s = params * max(cost.compute, cost.read, cost.write)
        # copies of both kinds are in the order in which they can be expected to be ready
        scale = 0.4 / max((len(own) + 1) * device_s + (len(other) + 1) * host_s, 1e-30)
        update = _SharedUpdate(
            copies=copies,
            cost=cost,
            stage=stage,
            params=params,
            barrier=barrier,
            device_key=key + own * device_s * scale,
            device_step=device_s * scale,
            host_key=key + other * host_s * scale,
            host_step=host_s * scale,
        )
        done = _update_on_device(update, replica) if len(own) else []
        done += _update_on_host(update) if len(other) else []
        ends.append(np.concatenate(done))
    return ends


def _groups_on_device(groups: int, share: float) -> Mask:
    """(groups,): which groups the device updates, spread evenly over all."""
    position = np.arange(groups)
    return np.asarray(np.floor((position + 1) * share + 1e-9) > np.floor(position * share + 1e-9))


def _update_on_device(update: _SharedUpdate, replica: ReplicaTasks) -> list[Rows]:
    """Add groups whose states come to the device, are updated there and go back. Returns the tasks that end them."""
    copies, cost, params, stage = update.copies, update.cost, update.params, update.stage
    tasks, offload, group = copies.tasks, copies.offload, replica.group
    tier = offload.tier_of("optimizer")
    size = params * (cost.state_bytes + group.comm.options.grad_bytes * offload.gradients)
    begin, arrived = copies.inward(update.device_key, stage, size, tier)
    seconds = optimizer_time_s(group.cluster.device, group.coefficients, params, cost.moved_bytes)
    work = CommWork.of(seconds, hbm_bytes=params * cost.moved_bytes)
    run = tasks.add(update.device_key, stage, S_COMPUTE, work, T_OPTIMIZER)
    back_key = update.device_key + update.device_step + _AFTER_NEXT
    back, stored = copies.outward(back_key, stage, params * cost.state_bytes, tier)
    tasks.depend(begin, update.barrier[0])
    tasks.depend(run, arrived)
    tasks.depend(back, run)
    tasks.depend(begin[BUFFERS:], stored[:-BUFFERS])
    return [stored]


def _update_on_host(update: _SharedUpdate) -> list[Rows]:
    """Add groups whose gradients go down, are applied by the host and come back as weights. Returns what ends them."""
    copies, cost, params, stage = update.copies, update.cost, update.params, update.stage
    tasks, key = copies.tasks, update.host_key
    done: list[Rows] = []
    begin, down = copies.outward(key, stage, params * cost.gradient_bytes, "host")
    run = tasks.add(key, stage, S_HOST, params * cost.compute, T_OFFLOAD, host_bytes=params * cost.moved_bytes)
    back_key = key + update.host_step + _AFTER_NEXT
    _, up = copies.inward(back_key, stage, params * cost.weight_bytes, "host")
    tasks.depend(begin, update.barrier[0])
    tasks.depend(run, down)
    tasks.depend(up, run)
    if cost.read:
        read = copies.read(key, stage, params * cost.state_bytes)
        written = copies.write(back_key, stage, params * cost.state_bytes)
        tasks.depend(read, update.barrier[0])
        tasks.depend(run, read)
        tasks.depend(written, run)
        tasks.depend(read[BUFFERS:], written[:-BUFFERS])
        done += [written]
    return [*done, up]
