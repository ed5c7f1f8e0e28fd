"""Data-parallel communication of local steps: replicas average their weights once a round of several steps."""

from __future__ import annotations

import numpy as np

from windtunnel.training.step.instructions import KEYS_OF_ROW
from windtunnel.training.step.replica_tasks import ReplicaTasks
from windtunnel.training.task_builder import S_REDUCE, T_REDUCE, TaskBuilder


def add_local_sgd_tasks(tasks: TaskBuilder, replica: ReplicaTasks) -> None:
    """Add this step's share of the round's average: next to the whole step if late, else after the last backward."""
    comm, schedule = replica.group.comm, replica.group.schedule
    assert comm.local is not None
    work, stage_of = comm.averaged(), replica.instructions.stage_of
    key = -1.0 if comm.local.late else len(schedule) * KEYS_OF_ROW + 1
    for stage in range(schedule.p):
        mine = np.flatnonzero(stage_of == stage)
        ids = tasks.add(np.full(len(mine), key), stage, S_REDUCE, work[mine], T_REDUCE)
        if not comm.local.late:
            tasks.depend(ids, replica.finish[stage][0])
        replica.finish[stage].append(int(ids[-1]))
