"""A single controller that launches every program of a step over the data-centre network.

Programs are the instructions of the schedule. Running ahead, the controller enqueues them one after the other, however
far computation is, and devices wait only where they are faster than it. Otherwise it launches a program once it knows
that its inputs are there, and each pays the way there and back.

Source: Barham et al. 2022, Pathways, https://arxiv.org/abs/2203.12533, sections 4.4 and 4.5.
"""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Rows
from windtunnel.schedules.table import InstructionTable
from windtunnel.specs.workload import Controller
from windtunnel.training.step.instructions import KEYS_OF_ROW
from windtunnel.training.task_builder import S_HOST, T_DISPATCH, TaskBuilder


def dispatch(
    tasks: TaskBuilder, controller: Controller, schedule: InstructionTable, begin: Rows, last_task: Rows
) -> Rows:
    """Add a launch for each unit of the schedule and return the tasks that wait for the inputs of each row, shape (n,).

    Args:
        tasks: the step so far.
        controller: what a launch costs.
        schedule: the pipeline schedule; its stages are served in turn.
        begin: first task of each row's unit, shape (n,).
        last_task: last task of each row, shape (n,).
    """
    first, last = schedule.units()
    heads = np.flatnonzero(first == np.arange(len(schedule)))
    opens = np.isin(heads, schedule.stage_ptr[:-1])
    if controller.ahead:  # the first programs were launched while the step before ran
        seconds = np.where(opens, 0.0, controller.dispatch_s * schedule.p)
        launch = tasks.add(heads * KEYS_OF_ROW, schedule.stage[heads], S_HOST, seconds, T_DISPATCH, row=heads)
        tasks.depend(begin[heads], launch)
        return begin
    seconds = np.full(len(heads), controller.dispatch_s + 2.0 * controller.latency_s)
    launch = tasks.add(heads * KEYS_OF_ROW, schedule.stage[heads], S_HOST, seconds, T_DISPATCH, row=heads)
    tasks.depend(begin[heads], launch)
    inner = ~opens
    tasks.depend(launch[inner], last_task[last[heads[inner] - 1]])
    waits = np.empty(len(schedule), np.int64)
    waits[heads] = launch
    return waits[first]
