"""Sends between pipeline stages, and the order that they and the model impose on instructions."""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Mask, Rows
from windtunnel.program.comm_work import CommWork
from windtunnel.schedules.table import B, F, InstructionTable
from windtunnel.training.step.compute_tasks import rows_beside_comm
from windtunnel.training.step.instructions import KEYS_OF_ROW
from windtunnel.training.step.replica_tasks import ReplicaTasks
from windtunnel.training.step.single_controller import dispatch
from windtunnel.training.task_builder import S_COMPUTE, S_PP, T_SEND, TaskBuilder


def add_p2p_tasks(tasks: TaskBuilder, replica: ReplicaTasks) -> None:
    """Add the sends of activations and their gradients, and let every instruction wait for what it reads."""
    instructions, schedule = replica.instructions, replica.group.schedule
    kind, virtual_stage = instructions.kind, instructions.virtual_stage
    unit_first, unit_last = schedule.units()
    begin = instructions.first_task[unit_first]
    arrival = instructions.last_task[unit_last]  # task after which a row's result is at the next stage
    before, after = (near[virtual_stage, schedule.micro_batch] for near in schedule.neighbours())
    send = np.flatnonzero(_leaves_stage(schedule, before, after, instructions.stage_of))
    if len(send):
        target = np.where(kind[send] == F, after[send], before[send])
        sends = _add_sends(tasks, replica, send, target)
        tasks.depend(sends, arrival[send])
        arrival[send] = sends
    controller = replica.group.comm.training.controller
    if controller is not None:
        begin = dispatch(tasks, controller, schedule, begin, instructions.last_task)
    for direction, origin in ((F, before), (B, after)):
        here = np.flatnonzero((kind == direction) & (origin >= 0))
        source = instructions.row_of[direction, origin[here], schedule.micro_batch[here]]
        tasks.depend(begin[here], arrival[source])
    deepest = np.flatnonzero((kind == B) & (virtual_stage % schedule.depth == schedule.depth - 1))
    forward = instructions.row_of[F, virtual_stage[deepest], schedule.micro_batch[deepest]]
    tasks.depend(begin[deepest], instructions.last_task[unit_last[forward]])


def _add_sends(tasks: TaskBuilder, replica: ReplicaTasks, send: Rows, target: Rows) -> Rows:
    """Add a send for each row of `send` to virtual stage `target` and return the tasks."""
    group, instructions = replica.group, replica.instructions
    schedule, stage_of = group.schedule, instructions.stage_of
    unit_first, unit_last = schedule.units()
    hop = group.hops(stage_of[instructions.virtual_stage[send]], stage_of[target])
    meets = rows_beside_comm(group)[send]  # elsewhere nothing shares the rates of a send
    work = CommWork.of(
        hop.seconds,
        scale_up_bytes=np.where(meets, hop.scale_up_bytes, 0.0),
        scale_out_bytes=np.where(meets, hop.scale_out_bytes, 0.0),
    )
    keys = unit_last[send] * KEYS_OF_ROW + (KEYS_OF_ROW - 6) + 0.1 * (send - unit_first[send])
    stream = S_PP if group.comm.options.overlap_p2p else S_COMPUTE
    return tasks.add(keys, schedule.stage[send], stream, work, T_SEND, row=send)


def _leaves_stage(schedule: InstructionTable, before: Rows, after: Rows, stage_of: Rows) -> Mask:
    """(n,): whether the result of each row goes to another stage.

    Args:
        schedule: The pipeline schedule.
        before: (n,): virtual stage before that of each row, −1 for none.
        after: (n,): virtual stage after that of each row, −1 for none.
        stage_of: (K,): pipeline stage of each virtual stage.
    """
    target = np.where(schedule.kind == F, after, np.where(schedule.kind == B, before, -1))
    return np.asarray((target >= 0) & (stage_of[np.maximum(target, 0)] != schedule.stage))
