"""Breakdown of a simulated step: the seconds of each class of time on the pipeline stage that finishes last."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.program.tables import Timeline
from windtunnel.schedules.table import B, F, W
from windtunnel.training.stage_costs.stage_costs import StageCosts
from windtunnel.training.step.build_step import StepProgram
from windtunnel.training.task_builder import (
    S_COMPUTE,
    STREAMS,
    T_B,
    T_BARRIER,
    T_DISPATCH,
    T_F,
    T_GATHER,
    T_OFFLOAD,
    T_OPTIMIZER,
    T_REDUCE,
    T_SEND,
    T_W,
)

EXPOSED = {"tp": "exposed tp", "cp": "exposed cp", "ep": "exposed ep", "host": "host"}
"""Tag of a launch → class of time of what kernels wait for."""
_KERNELS = {
    "gemm": "gemm",
    "attention": "attention",
    "memory_bound": "memory bound",
    "scan": "scan",
    "recompute": "recompute",
}
"""Tag of a launch → class of time of kernels."""
_TRANSFERS = {
    T_SEND: "exposed pp",
    T_REDUCE: "exposed dp",
    T_GATHER: "exposed dp",
    T_OFFLOAD: "exposed offload",
    T_DISPATCH: "host",
}
"""Tag of a task of the step → class of time of a computation stream that waits for it."""


def breakdown(program: StepProgram, timeline: Timeline, costs: StageCosts) -> dict[str, float]:
    """Partition the wall time of the stage that finishes last.

    Returns:
        Class of time → seconds, largest first; the values sum to the makespan.
    """
    tasks = last_stage_tasks(program, timeline)
    start, end = timeline.start_s[tasks], timeline.end_s[tasks]
    tag, alone = program.tasks.tag[tasks], program.tasks.alone_s[tasks]
    seconds_of = _pass_seconds(program, costs, tasks)
    for task_tag, name in ((T_SEND, "exposed pp"), (T_OPTIMIZER, "optimizer")):
        seconds_of[name] += float(alone[tag == task_tag].sum())
    stretch = float(np.maximum(end - start - alone, 0.0).sum())
    if stretch > 0:
        seconds_of["slowed by overlap"] += stretch
    previous_end = np.concatenate([[0.0], end[:-1]])
    gap = np.maximum(start - previous_end, 0.0)
    for i in np.flatnonzero(gap > 0):
        _blame(seconds_of, program, timeline, int(tasks[i]), float(gap[i]))
    tail = timeline.makespan_s - float(end[-1]) if len(end) else timeline.makespan_s
    if tail > 0:
        seconds_of["exposed dp"] += tail
    return {name: value for name, value in sorted(seconds_of.items(), key=lambda x: -x[1]) if value > 0}


def _pass_seconds(program: StepProgram, costs: StageCosts, tasks: Ints) -> defaultdict[str, float]:
    """Class of time → seconds inside forward and backward passes, those that run in pairs included."""
    alone = program.tasks.alone_s[tasks]
    seconds_of: defaultdict[str, float] = defaultdict(float)
    for direction, stage, count in passes(program, costs, tasks, paired=False):
        for name, seconds in costs.busy_s[direction][stage].items():
            seconds_of[class_of(name)] += seconds * count
    for number, pair in enumerate(program.pairs):
        inside = (program.row[tasks] >= 0) & (_pair_of(program, tasks) == number)
        for name, seconds in pair.busy_s.items():
            seconds_of[class_of(name)] += seconds * float(alone[inside].sum()) / pair.seconds
    return seconds_of


def last_stage_tasks(program: StepProgram, timeline: Timeline) -> Ints:
    """Compute tasks, in launch order, of the stage that finishes last."""
    compute_stream = (program.tasks.stream_idx % len(STREAMS) == S_COMPUTE) & (program.stage >= 0)
    ends = np.where(compute_stream, timeline.end_s, -1.0)
    stage = int(program.stage[int(np.argmax(ends))])
    tasks: Ints = np.flatnonzero(compute_stream & (program.stage == stage))
    return tasks


def last_compute_s(program: StepProgram, timeline: Timeline, *, passes_only: bool = False) -> float:
    """Time at which the last computation of these replicas ends; `passes_only` leaves the optimizer out."""
    computes = (program.tasks.stream_idx % len(STREAMS) == S_COMPUTE) & (program.stage >= 0)
    if passes_only:
        computes &= program.row >= 0
    return float(timeline.end_s[computes].max())


def _pair_of(program: StepProgram, tasks: Ints) -> Ints:
    """Index of the kind of forward-backward pair that each task runs in, −1 for none. Shape (len(tasks),)."""
    if program.pair_of is None:
        return np.full(len(tasks), -1)
    row = program.row[tasks]
    return np.where(row >= 0, program.pair_of[np.maximum(row, 0)], -1)


def passes(
    program: StepProgram, costs: StageCosts, tasks: Ints, *, paired: bool = True
) -> list[tuple[int, int, float]]:
    """Count the micro-batches that pass each virtual stage in each direction.

    Args:
        program: The step.
        costs: Seconds of each virtual stage.
        tasks: Compute tasks to count.
        paired: Whether passes that run in forward-backward pairs count, in the time that they take there.

    Returns:
        (direction, virtual stage, number of micro-batches) for each combination that occurs.
    """
    tasks = tasks if paired else tasks[_pair_of(program, tasks) < 0]
    tag, alone = program.tasks.tag[tasks], program.tasks.alone_s[tasks]
    stage_of = np.where(program.row[tasks] >= 0, program.virtual_stage[program.row[tasks]], 0)
    counts = []
    for direction, pass_tag in ((F, T_F), (B, T_B), (W, T_W)):
        for stage in np.unique(stage_of[tag == pass_tag]):
            total = costs.seconds[direction, stage]
            if total > 0:
                seconds: Floats = alone[(tag == pass_tag) & (stage_of == stage)]
                counts.append((direction, int(stage), float(seconds.sum()) / total))
    return counts


def class_of(tag: str) -> str:
    """Class of time under which a launch with this tag is shown."""
    return EXPOSED.get(tag, _KERNELS.get(tag, tag))


def _blame(
    seconds_of: defaultdict[str, float], program: StepProgram, timeline: Timeline, task: int, gap_s: float
) -> None:
    """Charge one idle gap before `task` to the chain of tasks that ended it.

    Transfers are exposed while they ran; from where the chain enters another stage's computation, the rest is waiting.
    """
    now = float(timeline.start_s[task])
    begin = now - gap_s
    cause = int(timeline.blame[task])
    while now > begin and cause >= 0:
        tag = int(program.tasks.tag[cause])
        if tag not in _TRANSFERS and tag != T_BARRIER:
            break
        since = min(max(float(timeline.start_s[cause]), begin), now)
        if now > since:
            seconds_of[_TRANSFERS.get(tag, "bubble")] += now - since
        now = since
        cause = int(timeline.blame[cause])
    if now > begin:
        seconds_of["bubble"] += now - begin
