"""The order of jobs that wait and of those that run: jitted."""

# Numba's decorators have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return"

from __future__ import annotations

from windtunnel.arrays import Floats
from windtunnel.clusters.event_loop.failures_kernel import left
from windtunnel.clusters.event_loop.records import (
    AHEAD,
    ATTAINED,
    HIGH,
    LEVEL,
    LOW,
    NUM_RUNNING,
    PLACES,
    RANKED,
    REMAINING,
    REMAINING_DEVICES,
    WAITING,
    WAITS,
    JobTable,
    Rules,
    State,
)
from windtunnel.jit import helper, pasted

SLACK = 1e-3
"""Device-seconds below a limit that count as having reached it: more than the rounding of times."""


@helper
def level_of(attained: float, limits: Floats) -> int:
    """Limits that a job's device-seconds have passed."""
    low, high = 0, len(limits)
    while low < high:
        middle = (low + high) // 2
        if attained + SLACK >= limits[middle]:
            low = middle + 1
        else:
            high = middle
    return low


@pasted
def key_of_waiting(j: int, jobs: JobTable, rules: Rules, state: State) -> float:
    """What orders a job that waits: less is sooner. Inside a level those that run stay before those that wait."""
    if rules.kind == REMAINING:
        return state.remaining[j]
    if rules.kind == REMAINING_DEVICES:
        return state.remaining[j] * jobs.devices[j]
    if rules.kind == ATTAINED:
        return state.level[j] * LEVEL + WAITS + state.place[j]
    if rules.kind == RANKED:
        return jobs.key[j] + WAITS + (jobs.submit_s[j] - jobs.submit_s[0])
    return jobs.key[j]


@pasted
def next_place(state: State) -> float:
    """The end of every queue."""
    state.at[PLACES] += 1
    return float(state.at[PLACES])


@helper
def before(a: int, b: int, run_key: Floats) -> bool:
    """Whether one job comes before another by their keys; those that tie go by their number."""
    return run_key[a] < run_key[b] or (run_key[a] == run_key[b] and a < b)


@pasted
def enqueue(j: int, now: float, jobs: JobTable, rules: Rules, state: State) -> None:
    """Put a job among those that wait, at its place."""
    state.status[j] = WAITING
    state.queued[j] = now
    state.run_key[j] = key_of_waiting(j, jobs, rules, state)
    state.wait_sizes[jobs.devices[j]] += 1
    w = state.waiting
    low, high = state.at[LOW], state.at[HIGH]
    a, b = low, high
    while a < b:
        middle = (a + b) // 2
        if before(w[middle], j, state.run_key):
            a = middle + 1
        else:
            b = middle
    if low > 0 and (a - low < high - a or high >= len(w)):
        for i in range(low, a):
            w[i - 1] = w[i]
        state.at[LOW] = low - 1
        w[a - 1] = j
    else:
        for i in range(high, a, -1):
            w[i] = w[i - 1]
        state.at[HIGH] = high + 1
        w[a] = j


@pasted
def drop_started(end: int, jobs: JobTable, state: State) -> None:
    """Take jobs that were started out of those that wait, of which the first up to `end` were looked at."""
    w, to = state.waiting, end
    for i in range(end - 1, state.at[LOW] - 1, -1):
        if state.status[w[i]] == WAITING:
            to -= 1
            w[to] = w[i]
        else:
            state.wait_sizes[jobs.devices[w[i]]] -= 1
    state.at[LOW] = to


@pasted
def withdraw(j: int, jobs: JobTable, state: State) -> None:
    """Take a job that waits out of the queue."""
    w, at = state.waiting, state.at[LOW]
    while w[at] != j:
        at += 1
    for i in range(at, state.at[LOW], -1):
        w[i] = w[i - 1]
    state.at[LOW] += 1
    state.wait_sizes[jobs.devices[j]] -= 1
    state.status[j] = AHEAD


@pasted
def smallest_waiting(state: State) -> int:
    """Devices of the smallest job that waits; more than any job has where none does."""
    for size in range(len(state.wait_sizes)):
        if state.wait_sizes[size] > 0:
            return size
    return len(state.wait_sizes)


@pasted
def sort_running(now: float, jobs: JobTable, rules: Rules, state: State) -> None:
    """Keys of running jobs as they are now; between two events their order hardly changes."""
    running, key, devices, limits = state.running, state.run_key, jobs.devices, rules.limits
    remaining, ready, speed = state.remaining, state.ready, state.speed
    for i in range(state.at[NUM_RUNNING]):
        j = running[i]
        if rules.kind == REMAINING:
            key[j] = left(remaining[j], ready[j], speed[j], now)
        elif rules.kind == REMAINING_DEVICES:
            key[j] = left(remaining[j], ready[j], speed[j], now) * devices[j]
        elif rules.kind == ATTAINED:
            level = level_of(state.attained[j] + (now - state.started[j]) * devices[j], limits)
            if level > state.level[j]:
                state.level[j], state.fresh[j], state.place[j] = level, 1, next_place(state)
            key[j] = state.level[j] * LEVEL + state.fresh[j] * WAITS + state.place[j]
        elif rules.kind == RANKED:
            key[j] = jobs.key[j] + (state.started[j] - jobs.submit_s[0])
        else:
            key[j] = jobs.key[j]
        k = i
        while k > 0 and before(j, running[k - 1], key):
            running[k] = running[k - 1]
            k -= 1
        running[k] = j
