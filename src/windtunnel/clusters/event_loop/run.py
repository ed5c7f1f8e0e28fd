"""One run of a queue policy, by the kernel or its twin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Ints, uniform
from windtunnel.clusters.event_loop.power_records import NO_FEEDS, Feeds, PowerLog, new_feed_state, new_log
from windtunnel.clusters.event_loop.records import (
    ENDED,
    ENDED_WELL,
    EVENTS,
    NO_CAUSES,
    NUM_SEGMENTS,
    PREEMPTED,
    Causes,
    JobTable,
    Outages,
    Rules,
    Segments,
    all_told,
    filled,
    new_segments,
    new_state,
)
from windtunnel.clusters.event_loop.reference import Chooser, Twin
from windtunnel.clusters.jobs import LOWER
from windtunnel.kernel_cache import mark_compiled, runs_on_twin
from windtunnel.progress import counting

_KERNEL = "clusters/event_loop/queue"
_TWIN_EVENT_S = 2e-4
"""Seconds of one event of the twin with ten jobs in the room."""
_POWER_EVENTS = 20.0
"""Events of locks and brakes beside one of a job, at worst."""
_EVENTS = 20_000
"""Events between two looks of a progress line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What happened to each job, and when each of them ran where."""

    first_start_s: Floats
    end_s: Floats
    run_s: Floats
    """Seconds on devices, overheads included."""
    starts: Ints
    kills: Ints
    """Ends by a failure."""
    segments: Segments
    """Sorted by start, then job."""
    events: int
    held_back_s: Floats | None = None
    """Seconds of progress that locked clocks took from each job; None: no feeds."""
    power: PowerLog | None = None
    """Watts and clocks of rows; None: no feeds."""
    brakes: Ints | None = None
    """Times that each row's brake came."""
    held: Floats | None = None
    """Devices of each segment where jobs share them or change their number; None: the job's."""


def stretches(rows: Sequence[tuple[int, float, float, int, int]], end_s: Floats) -> Segments:
    """Segments of a loop without failures: job, start, end, first node and nodes of each, sorted by start, then job."""
    job, start, end, node, nodes = (np.array(column) for column in zip(*rows, strict=True))
    why = np.where(end >= end_s[job], ENDED_WELL, PREEMPTED)
    return Segments(job, start, end, node, nodes, why, np.zeros(len(rows)))


def run_queue(
    jobs: JobTable,
    rules: Rules,
    outages: Outages,
    capacity: Ints,
    choose: Chooser | None = None,
    twin: bool = False,
    causes: Causes = NO_CAUSES,
    feeds: Feeds = NO_FEEDS,
) -> Course:
    """Simulate all jobs.

    Args:
        jobs: in the order of submission; each fits the empty room.
        rules: how to decide.
        outages: of nodes.
        capacity: devices of each node.
        choose: a policy in Python, which the plain loop runs.
        twin: run the plain loop anyway.
        causes: of failures.
        feeds: of rows of nodes that share them.
    """
    expected_s = _twin_seconds(len(jobs.submit_s), len(capacity), len(causes.known_s))
    expected_s *= _POWER_EVENTS if len(feeds.limit_w) else 1.0
    if twin or choose is not None or runs_on_twin(_KERNEL, expected_s):
        return _by_twin(Twin(jobs, rules, outages, capacity.tolist(), choose, causes, feeds))
    jobs, outages = uniform(filled(jobs, rules)), uniform(all_told(outages))
    return _by_kernel(jobs, uniform(rules), outages, capacity, uniform(causes), uniform(feeds))


def _twin_seconds(num_jobs: int, num_nodes: int, num_causes: int) -> float:
    """Rough seconds of the plain loop: it looks at jobs and nodes at each event, and failures add events."""
    events = 2 * num_jobs + (num_jobs * num_nodes / 16 if num_causes else 0)
    return _TWIN_EVENT_S * events * (1 + num_jobs / 500) * (1 + num_nodes / 100)


def _by_twin(run: Twin) -> Course:
    run.run()
    rows = sorted(run.segments, key=lambda row: (row[1], row[0]))
    own = new_segments(len(rows))
    for column, values in zip(own, zip(*rows, strict=True), strict=True) if rows else ():
        column[:] = values
    return Course(
        first_start_s=np.array([job.first_start for job in run.jobs]),
        end_s=np.array([job.end for job in run.jobs]),
        run_s=np.array([job.run_s for job in run.jobs]),
        starts=np.array([job.starts for job in run.jobs]),
        kills=np.array([job.kills for job in run.jobs]),
        segments=own,
        events=run.events,
        **_of_feeds(
            run.power.feeds,
            np.array([job.held_back for job in run.jobs]),
            PowerLog._make(np.array(column) for column in zip(*run.power.log, strict=True)) if run.power.log else None,
            np.array([row.brakes for row in run.power.rows], np.int64),
        ),
    )


def _of_feeds(feeds: Feeds, held_back_s: Floats, log: PowerLog | None, brakes: Ints) -> dict[str, Any]:
    """Fields of a course that only rows with feeds have."""
    return {"held_back_s": held_back_s, "power": log, "brakes": brakes} if len(feeds.limit_w) else {}


def _by_kernel(jobs: JobTable, rules: Rules, outages: Outages, capacity: Ints, causes: Causes, feeds: Feeds) -> Course:
    from windtunnel.clusters.event_loop.queue_kernel import advance

    most, n = int(jobs.devices.max()), len(jobs.submit_s)
    state = new_state(jobs, capacity, min(len(capacity), most))
    segments = new_segments(4 * n + 4 * len(state.slot_width) + 8)
    rows, log = new_feed_state(feeds), new_log((8 * n + 8) * len(feeds.limit_w))
    with counting("jobs", lambda: (float(state.at[ENDED]), float(n)), LOWER) as pace:
        while not advance(jobs, rules, causes, outages, state, segments, feeds, rows, log, _EVENTS):
            pace.check()
            if rows.at[0] + len(feeds.limit_w) > len(log.time_s):
                log = PowerLog._make(np.resize(column, 2 * len(column)) for column in log)
            if state.at[NUM_SEGMENTS] + 2 * len(state.slot_width) + 2 > len(segments.job):
                segments = _rows(segments, np.arange(2 * len(segments.job)) % len(segments.job))
    mark_compiled(_KERNEL)
    count = state.at[NUM_SEGMENTS]
    order = np.lexsort((segments.job[:count], segments.start_s[:count]))
    return Course(
        first_start_s=state.first_start,
        end_s=state.end,
        run_s=state.run_s,
        starts=state.starts,
        kills=state.kills,
        segments=_rows(segments, order),
        events=int(state.at[EVENTS]),
        **_of_feeds(feeds, state.held_back, PowerLog._make(column[: rows.at[0]] for column in log), rows.brakes),
    )


def _rows(segments: Segments, rows: Ints) -> Segments:
    return Segments._make(column[rows] for column in segments)
