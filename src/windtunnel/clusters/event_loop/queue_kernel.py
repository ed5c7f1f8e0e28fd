"""Arrivals, ends, outages and decisions of queue policies, jitted. `reference.py` is the plain twin.

A job that runs has `remaining` seconds of work at `ready`, when the overhead of its start is over, and ends at
`finish`, or meets there what `fate` says; one that makes no progress is ready `NEVER`.
Waiting jobs stand in `waiting[LOW:HIGH]`, sorted by key and number; running ones in `running`, sorted too.
"""

# Numba's decorators have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return"

from __future__ import annotations

import math

from windtunnel.clusters.event_loop.failures_kernel import (
    crashed,
    fail,
    hang,
    is_on,
    keeps,
    own_cause,
    slow_down,
)
from windtunnel.clusters.event_loop.in_turn_kernel import decide_queue
from windtunnel.clusters.event_loop.order_kernel import enqueue, level_of, next_place, withdraw
from windtunnel.clusters.event_loop.power_kernel import act, next_wake, read_rows
from windtunnel.clusters.event_loop.power_records import Feeds, FeedState, PowerLog
from windtunnel.clusters.event_loop.preemption_kernel import decide_preemptive
from windtunnel.clusters.event_loop.records import (
    AHEAD,
    ARRIVED,
    ATTAINED,
    BREAKS,
    CHANGED,
    CLAIM,
    CRASHES,
    DONE,
    DRAINS,
    ENDED,
    ENDED_WELL,
    EVENTS,
    FAILED,
    FAILS,
    HIGH,
    LOW,
    NEVER,
    NUM_RUNNING,
    NUM_SEGMENTS,
    PAUSE,
    PAUSED,
    PREEMPTED,
    RELEASE,
    RESTARTS,
    SOUND,
    WAITING,
    WITHDRAW,
    Causes,
    JobTable,
    Outages,
    Rules,
    Segments,
    State,
)
from windtunnel.clusters.event_loop.starts_kernel import leave_running, release, set_finish, stop
from windtunnel.jit import helper, kernel, pasted


@pasted
def _next_time(jobs: JobTable, rules: Rules, outages: Outages, state: State) -> float:
    """When something happens next."""
    soonest, now = NEVER, state.clock[0]
    if state.at[ARRIVED] < len(jobs.submit_s):
        soonest = jobs.submit_s[state.at[ARRIVED]]
    if state.at[CHANGED] < len(outages.time_s):
        soonest = min(soonest, outages.time_s[state.at[CHANGED]])
    queued = state.at[HIGH] > state.at[LOW] or rules.repack
    if rules.tick_s <= 0 and rules.relax_s < NEVER:
        for i in range(state.at[LOW], state.at[HIGH]):
            relaxes = state.queued[state.waiting[i]] + rules.relax_s
            if relaxes > now:
                soonest = min(soonest, relaxes)
    guards = queued and rules.preemptive and rules.guaranteed_s > 0 and rules.tick_s <= 0
    if queued and rules.tick_s > 0:
        soonest = min(soonest, (math.floor(now / rules.tick_s + 1e-9) + 1.0) * rules.tick_s)
    running, finish = state.running, state.finish
    for i in range(state.at[NUM_RUNNING]):
        j = running[i]
        soonest = min(soonest, finish[j])
        if guards and state.started[j] + rules.guaranteed_s > now:
            soonest = min(soonest, state.started[j] + rules.guaranteed_s)
        if queued and rules.kind == ATTAINED and rules.tick_s <= 0:
            attained = state.attained[j] + (now - state.started[j]) * jobs.devices[j]
            level = level_of(attained, rules.limits)
            if level < len(rules.limits):
                soonest = min(soonest, now + (rules.limits[level] - attained) / jobs.devices[j])
    return max(soonest, now)


@helper
def _take_off(
    i: int, now: float, why: int, saves: bool, jobs: JobTable, rules: Rules, state: State, segments: Segments
) -> None:
    """Stop a job that runs, by its place among them; it waits anew, unless it has ended or was put aside."""
    j = state.running[i]
    release(j, state.free, 1, state)
    stop(j, now, why, saves, jobs, state, segments)
    leave_running(i, state)
    if why == FAILED:
        state.kills[j] += 1
    if why == ENDED_WELL:
        state.status[j], state.end[j], state.remaining[j] = DONE, now, 0.0
        state.at[ENDED] += 1
    elif why == PAUSED:
        state.status[j] = AHEAD
    else:
        state.place[j] = next_place(state)
        enqueue(j, now, jobs, rules, state)


@pasted
def _end_jobs(now: float, jobs: JobTable, rules: Rules, causes: Causes, state: State, segments: Segments) -> None:
    """Take off what has ended, and let failures of jobs take their course."""
    for i in range(state.at[NUM_RUNNING] - 1, -1, -1):
        j = state.running[i]
        if state.finish[j] <= now and state.fate[j] == FAILS:
            fail(j, now, own_cause(j, causes, state), jobs, causes, state)
        if state.finish[j] > now:
            continue
        if state.fate[j] == SOUND:
            _take_off(i, now, ENDED_WELL, True, jobs, rules, state, segments)
        elif state.fate[j] == RESTARTS:
            set_finish(j, now, jobs, causes, state)
        else:
            _take_off(i, now, FAILED, state.fate[j] == DRAINS, jobs, rules, state, segments)


@helper
def _change_node(
    node: int,
    capacity: int,
    kind: int,
    saves: bool,
    now: float,
    jobs: JobTable,
    rules: Rules,
    state: State,
    segments: Segments,
) -> None:
    """A node fails, returns, or is claimed: jobs go off it and wait."""
    state.free[node] += capacity - state.capacity[node]
    fell = capacity < state.capacity[node]
    state.capacity[node] = capacity
    if kind != CLAIM:
        state.broken[node], state.slowed[node] = 0, 1.0
        for i in range(state.at[NUM_RUNNING] - 1, -1, -1):
            if fell and is_on(state.running[i], node, state):
                _take_off(i, now, FAILED, saves, jobs, rules, state, segments)
    while kind == CLAIM and state.free[node] < 0:
        last = -1
        for i in range(state.at[NUM_RUNNING]):
            j = state.running[i]
            if is_on(j, node, state):
                k = state.running[last]
                later = state.started[j] > state.started[k] or (state.started[j] == state.started[k] and j > k)
                if last < 0 or later:
                    last = i
        if last < 0:
            break
        _take_off(last, now, PREEMPTED, rules.preempted_save, jobs, rules, state, segments)


@helper
def _break_node(node: int, cause: int, now: float, jobs: JobTable, causes: Causes, state: State) -> None:
    """A node fails and nobody knows: jobs on it stand still, or go on slower."""
    slow = causes.slow[cause]
    if slow > 1.0:
        state.slowed[node] = slow
    else:
        state.broken[node] = 1
    for i in range(state.at[NUM_RUNNING]):
        j = state.running[i]
        if is_on(j, node, state):
            if slow > 1.0:
                slow_down(j, now, slow, state)
            elif state.ready[j] < NEVER:
                hang(j, now, jobs, state)


@helper
def _befall(
    now: float, jobs: JobTable, rules: Rules, causes: Causes, outages: Outages, state: State, segments: Segments
) -> None:
    """What comes from outside by now."""
    while state.at[CHANGED] < len(outages.time_s) and outages.time_s[state.at[CHANGED]] <= now:
        row = state.at[CHANGED]
        node, kind, cause = outages.node[row], outages.kind[row], outages.cause[row]
        state.at[CHANGED] += 1
        if kind == BREAKS:
            _break_node(node, cause, now, jobs, causes, state)
        elif kind == CRASHES:
            j = crashed(node, outages.capacity[row], state)
            if j >= 0:
                fail(j, now, cause, jobs, causes, state)
        elif kind == PAUSE or kind == WITHDRAW:
            for i in range(state.at[NUM_RUNNING] - 1, -1, -1):
                if state.running[i] == node:
                    _take_off(i, now, PAUSED, True, jobs, rules, state, segments)
            if kind == WITHDRAW and state.status[node] == WAITING:
                withdraw(node, jobs, state)
        elif kind == RELEASE:
            if state.status[node] == AHEAD:
                state.place[node] = next_place(state)
                enqueue(node, now, jobs, rules, state)
        else:
            saves = keeps(cause, causes)
            _change_node(node, outages.capacity[row], kind, saves, now, jobs, rules, state, segments)


@pasted
def _arrive(now: float, jobs: JobTable, rules: Rules, state: State) -> None:
    """Jobs that were submitted by now join the queue."""
    while state.at[ARRIVED] < len(jobs.submit_s) and jobs.submit_s[state.at[ARRIVED]] <= now:
        if jobs.held[state.at[ARRIVED]] == 0:
            state.place[state.at[ARRIVED]] = next_place(state)
            enqueue(state.at[ARRIVED], now, jobs, rules, state)
        state.at[ARRIVED] += 1


@kernel(allocates=False)
def advance(
    jobs: JobTable,
    rules: Rules,
    causes: Causes,
    outages: Outages,
    state: State,
    segments: Segments,
    feeds: Feeds,
    rows: FeedState,
    log: PowerLog,
    events: int,
) -> bool:
    """Run on until all jobs have ended, `segments` or `log` is full, or as many events have passed.

    It may be called again with more room in `segments` and `log`. Returns whether all have ended.
    """
    n, room_needed, num_rows = len(jobs.submit_s), 2 * len(state.slot_width) + 2, len(feeds.limit_w)
    for _ in range(events):
        if state.at[ENDED] >= n:
            return True
        if state.at[NUM_SEGMENTS] + room_needed > len(segments.job) or rows.at[0] + num_rows > len(log.time_s):
            return False
        now = _next_time(jobs, rules, outages, state)
        if now >= NEVER:
            return True
        state.at[EVENTS] += 1
        if num_rows > 0:
            wakes = next_wake(state.clock[0], feeds, rows)
            if wakes < now:
                state.clock[0] = wakes
                act(wakes, feeds, rows)
                read_rows(wakes, feeds, rows, log, state)
                continue
        state.clock[0] = now
        _end_jobs(now, jobs, rules, causes, state, segments)
        if state.at[CHANGED] < len(outages.time_s) and outages.time_s[state.at[CHANGED]] <= now:
            _befall(now, jobs, rules, causes, outages, state, segments)
        _arrive(now, jobs, rules, state)
        if rules.tick_s <= 0 or now <= math.floor(now / rules.tick_s + 1e-9) * rules.tick_s:
            queued = state.at[HIGH] > state.at[LOW]
            if rules.preemptive and (queued or rules.repack):
                decide_preemptive(now, jobs, rules, causes, state, segments)
            elif queued:
                decide_queue(now, jobs, rules, causes, state)
        if num_rows > 0:
            act(now, feeds, rows)
            read_rows(now, feeds, rows, log, state)
    return state.at[ENDED] >= n
