"""The loop of jobs made of tasks: every device that becomes idle takes one task of the job that is next."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.clusters.event_loop.run import Course, stretches
from windtunnel.clusters.jobs import LOWER, Jobs
from windtunnel.clusters.task_policies.base import Order, Tasks
from windtunnel.progress import counting


@dataclass(slots=True)
class _Queue:
    """Tasks of a job that wait."""

    whole: int
    length_s: float
    parts: list[float] = field(default_factory=list)
    """Seconds left of tasks that have left their device."""
    unended: int = 0

    def __post_init__(self) -> None:
        self.unended = self.whole

    def take(self) -> float:
        """Seconds of the next task."""
        if self.parts:
            return self.parts.pop(0)
        self.whole -= 1
        return self.length_s


@dataclass(frozen=True, slots=True)
class TaskRules:
    """How tasks are cut."""

    part_s: float
    """Longest task: longer ones are split before they start."""
    slice_s: float
    """Longest stretch on a device."""


def run_tasks(jobs: Jobs, capacity: Ints, order: Order, rules: TaskRules) -> Course:
    """Simulate all jobs: one of d devices and w seconds is d tasks of w seconds, or more and shorter ones.

    Args:
        jobs: in the order of submission.
        capacity: devices of each node.
        order: whose task is next.
        rules: how tasks are cut.
    """
    n = len(jobs)
    splits = np.ceil(jobs.work_s / rules.part_s - 1e-9).astype(np.int64).clip(1)
    users = jobs.users or ("",) * n
    sizes = jobs.estimates * jobs.devices
    idle = [(node, i) for node, size in enumerate(capacity.tolist()) for i in range(size)][::-1]
    queues: dict[int, _Queue] = {}
    live: dict[int, Tasks] = {}
    ready: dict[int, Tasks] = {}
    busy: list[tuple[float, int, int, float, tuple[int, int], float]] = []
    rows: list[tuple[int, float, float, int]] = []
    first, end = np.full(n, np.nan), np.full(n, np.nan)
    arrived = starts = 0
    with counting("jobs", lambda: (float(np.isfinite(end).sum()), float(n)), LOWER) as pace:
        while arrived < n or busy:
            pace.check()
            now = min(busy[0][0] if busy else math.inf, float(jobs.submit_s[arrived]) if arrived < n else math.inf)
            while busy and busy[0][0] <= now:
                _, _, number, rest, device, begun = heapq.heappop(busy)
                rows.append((number, begun, now, device[0]))
                idle.append(device)
                live[number].running -= 1
                if rest > 0:
                    queues[number].parts.append(rest)
                    ready[number] = live[number]
                    continue
                queues[number].unended -= 1
                if queues[number].unended == 0:
                    end[number] = now
                    del live[number], queues[number]
            while arrived < n and jobs.submit_s[arrived] <= now:
                job = Tasks(arrived, users[arrived], float(jobs.submit_s[arrived]), float(sizes[arrived]))
                count = int(splits[arrived])
                queues[arrived] = _Queue(int(jobs.devices[arrived]) * count, float(jobs.work_s[arrived]) / count)
                live[arrived] = ready[arrived] = job
                order.arrive(job, now)
                arrived += 1
            while idle and ready:
                job = min(ready.values(), key=lambda one: order.key(one, ready))
                queue = queues[job.number]
                length = queue.take()
                ran = min(length, rules.slice_s)
                starts += 1
                job.running, job.had_s, job.started_at = job.running + 1, job.had_s + ran, starts
                first[job.number] = now if np.isnan(first[job.number]) else first[job.number]
                rest = length - ran if length > ran * (1 + 1e-12) else 0.0
                heapq.heappush(busy, (now + ran, starts, job.number, rest, idle.pop(), now))
                if not queue.whole and not queue.parts:
                    del ready[job.number]
    return _course(rows, first, end)


def _course(rows: list[tuple[int, float, float, int]], first: Floats, end: Floats) -> Course:
    rows.sort(key=lambda row: (row[1], row[0], row[2]))
    run_s, until = np.zeros(len(first)), np.full(len(first), -np.inf)
    for number, begun, ended, _ in rows:  # seconds with at least one task
        run_s[number] += max(ended - max(begun, until[number]), 0.0)
        until[number] = max(until[number], ended)
    return Course(
        first_start_s=first,
        end_s=end,
        run_s=run_s,
        starts=np.ones(len(first), np.int64),
        kills=np.zeros(len(first), np.int64),
        segments=stretches([(*row, 1) for row in rows], end),
        events=2 * len(rows),
        held=np.ones(len(rows)),
    )
