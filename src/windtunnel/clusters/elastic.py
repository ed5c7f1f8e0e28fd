"""The loop of elastic jobs: whenever jobs come or end, a policy says how many devices each job has from now on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.clusters.elastic_policies.base import ElasticPolicy, Running
from windtunnel.clusters.event_loop.records import ENDED_WELL, PREEMPTED, Segments
from windtunnel.clusters.event_loop.run import Course
from windtunnel.clusters.jobs import LOWER
from windtunnel.progress import counting


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticJobs:
    """Jobs that run on more or fewer devices."""

    submit_s: Floats
    work: Floats
    """Seconds on the number of devices that they are stated for."""
    sizes: Ints
    """Numbers of devices, rising."""
    rate: Floats
    """Job × size: work a second; 0 where it cannot."""
    deadline_s: Floats
    overhead_s: Floats
    """Of a change of a job's devices."""
    devices: int
    """Of the room."""


@dataclass(slots=True)
class _Run:
    """What changes."""

    left: Floats
    end: Floats
    first: Floats
    run_s: Floats
    starts: Ints
    level: Ints
    since: Floats
    placed: Ints
    """Changes to other devices, the first start among them."""
    ready: Floats
    """When a job's last change is over."""
    rows: list[tuple[int, float, float, int]]


def run_elastic(jobs: ElasticJobs, policy: ElasticPolicy, slot_s: float) -> Course:
    """Simulate all jobs. What comes or ends within a slot after a decision waits for its end."""
    n = len(jobs.work)
    run = _Run(
        left=jobs.work.astype(np.float64),
        end=np.full(n, np.nan),
        first=np.full(n, np.nan),
        run_s=np.zeros(n),
        starts=np.zeros(n, np.int64),
        level=np.full(n, -1, np.int64),
        since=np.zeros(n),
        placed=np.zeros(n, np.int64),
        ready=np.full(n, -np.inf),
        rows=[],
    )
    allocate = policy.start()
    active, arrived, now, events = np.zeros(0, np.int64), 0, float(jobs.submit_s[0]), 0
    with counting("jobs", lambda: (float(np.isfinite(run.end).sum()), float(n)), LOWER) as pace:
        while arrived < n or len(active):
            pace.check()
            if not len(active):
                now = max(now, float(jobs.submit_s[arrived]))
            until = int(np.searchsorted(jobs.submit_s, now, side="right"))
            active, arrived = np.concatenate([active, np.arange(arrived, until)]), until
            overhead = _assign(jobs, run, active, allocate(_view(jobs, run, active, now, slot_s)), now)
            speed = np.where(run.level[active] >= 0, jobs.rate[active, run.level[active]], 0.0)
            ends = np.where(speed > 0, now + overhead + run.left[active] / np.maximum(speed, 1e-300), np.inf)
            coming = float(jobs.submit_s[arrived]) if arrived < n else np.inf
            event = min(coming, float(ends.min()))
            if not np.isfinite(event):
                break
            until_s = now + slot_s if policy.periodic else max(event, now + slot_s)
            active, now = _advance(run, active, (speed, overhead, ends), (now, until_s)), until_s
            events += 1
    return _course(jobs, run, events)


def _view(jobs: ElasticJobs, run: _Run, active: Ints, now: float, slot_s: float) -> Running:
    return Running(
        jobs=active,
        sizes=jobs.sizes,
        rate=jobs.rate[active],
        left_s=run.left[active],
        due_s=jobs.deadline_s[active] - now,
        devices=jobs.devices,
        slot_s=slot_s,
        level=run.level[active],
        age_s=now - jobs.submit_s[active],
        restarts=np.maximum(run.placed[active] - 1, 0).astype(np.float64),
        overhead_s=jobs.overhead_s[active],
    )


def _assign(jobs: ElasticJobs, run: _Run, active: Ints, levels: Ints, now: float) -> Floats:
    """Change devices; seconds until each job gets on."""
    changed = levels != run.level[active]
    for job in active[changed & (run.level[active] >= 0)]:
        run.rows.append((int(job), float(run.since[job]), now, int(jobs.sizes[run.level[job]])))
    fresh = active[changed & (levels >= 0)]
    run.starts[active[(run.level[active] < 0) & (levels >= 0)]] += 1
    run.since[fresh] = now
    run.placed[fresh] += 1
    run.ready[fresh] = now + jobs.overhead_s[fresh]
    run.first[fresh[np.isnan(run.first[fresh])]] = now
    run.level[active] = levels
    return np.where(levels >= 0, np.maximum(run.ready[active] - now, 0.0), 0.0)


def _advance(run: _Run, active: Ints, pace: tuple[Floats, Floats, Floats], span: tuple[float, float]) -> Ints:
    """Let all run over a span; those that are left."""
    (speed, overhead, ends), (now, until) = pace, span
    on = speed > 0
    spent = np.where(on, np.minimum(ends, until) - now, 0.0)
    run.left[active] = np.maximum(run.left[active] - np.maximum(spent - overhead, 0.0) * speed, 0.0)
    run.run_s[active] += spent
    done = on & (ends <= until + 1e-9)
    run.end[active[done]] = ends[done]
    run.left[active[done]] = 0.0
    return active[~done]


def _course(jobs: ElasticJobs, run: _Run, events: int) -> Course:
    last = [
        (job, float(run.since[job]), float(run.end[job]), int(jobs.sizes[run.level[job]]))
        for job in np.flatnonzero(np.isfinite(run.end)).tolist()
    ]
    rows = sorted([*run.rows, *last], key=lambda row: (row[1], row[0]))
    job, start, end, devices = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [], [])
    zeros = np.zeros(len(rows), np.int64)
    return Course(
        first_start_s=run.first,
        end_s=run.end,
        run_s=run.run_s,
        starts=run.starts,
        kills=np.zeros(len(run.end), np.int64),
        segments=Segments(
            np.array(job, np.int64),
            np.array(start, np.float64),
            np.array(end, np.float64),
            zeros,
            zeros + 1,
            np.where(np.array(end) >= run.end[np.array(job, np.int64)], ENDED_WELL, PREEMPTED),
            np.zeros(len(rows)),
        ),
        events=events,
        held=np.array(devices, np.float64),
    )
