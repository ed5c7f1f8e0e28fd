"""The step program: a pipeline schedule's instructions, sends, data-parallel communication and the optimizer.

Everything is built with array arithmetic; a step of 66,000 instructions takes milliseconds. Rates and streams belong to
pipeline stages, which are the rank classes of a symmetric step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Int32s, Rows
from windtunnel.program.tables import Resources, Streams, TaskTable
from windtunnel.training.offload.host_optimizer import is_spelt_out
from windtunnel.training.step.compute_tasks import add_compute_tasks
from windtunnel.training.step.cross_group_reduction import CrossGroupNetwork, add_cross_group_reductions
from windtunnel.training.step.ddp_tasks import add_ddp_tasks
from windtunnel.training.step.forward_backward_overlap import OverlappedPair
from windtunnel.training.step.host_optimizer_tasks import beside_backward, early_gradients, shared_update
from windtunnel.training.step.instructions import KEYS_OF_ROW
from windtunnel.training.step.local_sgd_tasks import add_local_sgd_tasks
from windtunnel.training.step.offload_tasks import add_offload_tasks
from windtunnel.training.step.p2p_tasks import add_p2p_tasks
from windtunnel.training.step.replica_group import ReplicaGroup
from windtunnel.training.step.replica_tasks import ReplicaTasks
from windtunnel.training.step.zero3_tasks import add_zero3_tasks
from windtunnel.training.task_builder import (
    S_COMPUTE,
    S_GATHER,
    S_REDUCE,
    T_BARRIER,
    T_F,
    T_GATHER,
    T_OPTIMIZER,
    T_REDUCE,
    BuiltTables,
    TaskBuilder,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepProgram:
    """The program and what each task stands for. Task arrays have shape (n,)."""

    tasks: TaskTable
    streams: Streams
    resources: Resources
    stage: Int32s
    row: Rows
    """Instruction row, −1 for tasks that belong to none."""
    first_task: Rows
    last_task: Rows
    """First and last compute task of each instruction row."""
    compute_task: Rows
    """Compute tasks row by row, piece by piece; row r owns `compute_task[piece_ptr[r]:piece_ptr[r + 1]]`."""
    piece_ptr: Rows
    virtual_stage: Rows
    """Virtual stage, in depth order, of each instruction row."""
    pair_of: Rows | None = None
    """Kind of pair that each instruction row runs in, −1 for none; absent where no rows run in pairs."""
    pairs: tuple[OverlappedPair, ...] = ()


def build_step(group: ReplicaGroup) -> StepProgram:
    """One optimizer step of replicas that are alike, as tasks."""
    return build_joint([group])[0]


def build_joint(groups: list[ReplicaGroup], network: CrossGroupNetwork | None = None) -> list[StepProgram]:
    """One optimizer step of replicas that need not be alike: one program, seen from each of them.

    Args:
        groups: At least one; where there are more, all have the same number of stages.
        network: The network over which groups add up their gradients.
    """
    tasks = TaskBuilder()
    replicas: list[ReplicaTasks] = []
    for group in groups:
        tasks.begin(sum(other.schedule.p for other in groups[: len(replicas)]))
        replicas.append(add_replica_tasks(tasks, group))
    if network is not None:
        add_cross_group_reductions(tasks, replicas, network)
    end_key = (max(len(group.schedule) for group in groups) + 1) * KEYS_OF_ROW
    for replica in replicas:
        add_tied_embedding_allreduce(tasks, replica, end_key)
    host_ends = [_add_host_gradients(tasks, replica) for replica in replicas]
    tasks.begin(0, 0)
    barrier = tasks.add(end_key + 1, 0, S_GATHER, 0.0, T_BARRIER)
    finished = np.array([task + replica.first_id for replica in replicas for own in replica.finish for task in own])
    tasks.depend(np.full(len(finished), barrier[0]), finished)
    for replica, ends in zip(replicas, host_ends, strict=True):
        _add_update(tasks, replica, barrier, end_key, ends)
    built = tasks.build(np.concatenate([group.capacity for group in groups]))
    return [view_of_group(built, tasks, replica) for replica in replicas]


def add_replica_tasks(tasks: TaskBuilder, group: ReplicaGroup) -> ReplicaTasks:
    """Add instructions, sends, data-parallel communication and offloading of a group of replicas."""
    plan, comm = group.plan, group.comm
    replica = add_compute_tasks(tasks, group)
    add_p2p_tasks(tasks, replica)
    gathers = np.full(len(replica.compute), -1, np.int64)
    if plan.zero == 3 and comm.replicated:
        gathers = add_zero3_tasks(tasks, replica)
    elif comm.local is not None:
        add_local_sgd_tasks(tasks, replica)
    elif comm.replicated:
        add_ddp_tasks(tasks, replica)
    if plan.offload.activations > 0 or plan.offload.params > 0:
        add_offload_tasks(tasks, replica, gathers)
    if plan.offload.gradients > 0 and group.schedule.m > 1:
        early_gradients(tasks, replica)
    return replica


def add_tied_embedding_allreduce(tasks: TaskBuilder, replica: ReplicaTasks, key: float) -> None:
    """Add the all-reduce of an embedding that the first and the last stage share."""
    group = replica.group
    stages = group.schedule.p
    if not group.stages.graph.tied or stages == 1:
        return
    tasks.begin(replica.first_stage, replica.first_id)
    seconds = group.comm.tied_seconds(stages)
    ends = (0, int(replica.instructions.stage_of[group.schedule.depth - 1]))
    before = [np.array(replica.finish[stage]) for stage in ends]
    for stage in ends:
        task = tasks.add(key, stage, S_REDUCE, seconds, T_REDUCE)
        for last in before:
            tasks.depend(task, last)
        replica.finish[stage].append(int(task[0]))


def _add_host_gradients(tasks: TaskBuilder, replica: ReplicaTasks) -> list[Rows]:
    """Add the last gradients' way to the host, and its updates next to backward.

    Returns:
        Tasks of each stage without which the step has not ended; empty where gradients stay on the device.
    """
    offload = replica.group.plan.offload
    if not offload.gradients and not (is_spelt_out(offload) and offload.update == "beside_backward"):
        return []
    tasks.begin(replica.first_stage, replica.first_id)
    return beside_backward(tasks, replica)


def _add_update(tasks: TaskBuilder, replica: ReplicaTasks, barrier: Rows, end_key: float, ends: list[Rows]) -> None:
    """Add the optimizer of every stage, and the parameter gathers that follow it.

    Args:
        tasks: Collects the tasks.
        replica: What was added for the group so far.
        barrier: The task that all gradients lead to.
        end_key: Launch key after all instructions.
        ends: Tasks of each stage that its optimizer waits for besides; may be empty.
    """
    group, stage_of = replica.group, replica.instructions.stage_of
    comm, plan, stages = group.comm, group.plan, np.arange(group.schedule.p)
    tasks.begin(replica.first_stage, replica.first_id)
    if is_spelt_out(plan.offload) and plan.offload.update != "beside_backward":
        ends = shared_update(tasks, replica, barrier - replica.first_id, end_key + 1.5)
    keys = np.full(len(stages), end_key + 2)
    updates = tasks.add(keys, stages, S_COMPUTE, group.optimizer_seconds(stage_of), T_OPTIMIZER)
    tasks.depend(updates, barrier[0] - replica.first_id)
    for stage, own in enumerate(ends):
        tasks.depend(updates[stage], own)
    if comm.replicated and plan.zero in (1, 2) and not comm.gather_at_start and comm.behaviour.shard_optimizer:
        seconds = np.bincount(stage_of, weights=comm.gather_seconds(), minlength=len(stages))
        tasks.depend(tasks.add(keys + 1, stages, S_GATHER, seconds, T_GATHER), updates)
    elif comm.replicated and plan.levels is not None:
        seconds = np.bincount(stage_of, weights=comm.refreshed(), minlength=len(stages))
        if seconds.any():
            tasks.depend(tasks.add(keys + 1, stages, S_GATHER, seconds, T_GATHER), updates)


def view_of_group(built: BuiltTables, tasks: TaskBuilder, replica: ReplicaTasks) -> StepProgram:
    """The program as a group of replicas sees it: tasks of other groups have no stage and no row."""
    instructions, first_id = replica.instructions, replica.first_id
    stages = replica.group.schedule.p
    own = (built.stage >= replica.first_stage) & (built.stage < replica.first_stage + stages)
    row = np.where(own, built.row, -1)
    tag = built.tasks.tag
    is_compute = own & (tag == T_F)
    tag[is_compute] = instructions.kind[row[is_compute]].astype(np.int32)
    final = built.final
    return StepProgram(
        tasks=built.tasks,
        streams=built.streams,
        resources=built.resources,
        stage=np.where(own, built.stage - replica.first_stage, -1).astype(np.int32),
        row=row,
        first_task=final[instructions.first_task + first_id],
        last_task=final[tasks.end_of()[instructions.last_task + first_id]],
        compute_task=final[replica.compute + first_id],
        piece_ptr=np.append(instructions.first_task, len(instructions.row)),
        virtual_stage=instructions.virtual_stage,
        pair_of=replica.pair_of,
        pairs=replica.pairs,
    )
