"""Decisions without preemption: jobs start in their order, or backfill: jitted."""

# Numba's decorators have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return"

from __future__ import annotations

from windtunnel.clusters.event_loop.order_kernel import drop_started, smallest_waiting
from windtunnel.clusters.event_loop.placement_kernel import is_relaxed, place, placement_of
from windtunnel.clusters.event_loop.records import (
    EASY,
    HIGH,
    LOW,
    NEVER,
    NUM_RUNNING,
    STRICT,
    Causes,
    JobTable,
    Rules,
    State,
)
from windtunnel.clusters.event_loop.starts_kernel import join_running, release, start
from windtunnel.jit import pasted


@pasted
def _start_waiting(j: int, now: float, width: int, jobs: JobTable, causes: Causes, state: State) -> None:
    """Start a job that is never preempted: those that run are sorted by when they are expected to end."""
    start(j, now, width, jobs, causes, state)
    release(j, state.free, -1, state)
    state.run_key[j] = now + jobs.overhead_s[j] + jobs.estimate_s[j] / state.speed[j]
    join_running(j, state)


@pasted
def decide_queue(now: float, jobs: JobTable, rules: Rules, causes: Causes, state: State) -> None:
    """Start waiting jobs in their order, without preemption."""
    at, high, too_large = state.at[LOW], state.at[HIGH], len(state.wait_sizes)
    smallest = smallest_waiting(state)
    while at < high and smallest < too_large:
        j = state.waiting[at]
        width = 0
        if jobs.devices[j] < too_large:
            width = place(placement_of(j, now, rules, state), jobs.devices[j], state.free, state)
        if width > 0:
            _start_waiting(j, now, width, jobs, causes, state)
        elif rules.blocking == STRICT:
            break
        elif rules.blocking == EASY:
            at = _backfill(at, now, jobs, rules, causes, state)
            break
        elif is_relaxed(j, now, rules, state):
            too_large = min(too_large, jobs.devices[j])
        at += 1
    drop_started(at, jobs, state)


@pasted
def _backfill(head: int, now: float, jobs: JobTable, rules: Rules, causes: Causes, state: State) -> int:
    """Start jobs behind the head that end before its reservation or leave it its nodes; returns where it stopped."""
    reserved = _reserve(state.waiting[head], now, jobs, rules, state)
    end = min(state.at[HIGH], head + 1 + rules.depth)
    too_large, smallest = len(state.wait_sizes), smallest_waiting(state)
    at = head + 1
    while at < end and smallest < too_large:
        j = state.waiting[at]
        at += 1
        if jobs.devices[j] >= too_large:
            continue
        kind = placement_of(j, now, rules, state)
        sooner = now + jobs.overhead_s[j] + jobs.estimate_s[j] / jobs.spread_speed[j] <= reserved
        if sooner:
            width = place(kind, jobs.devices[j], state.free, state)
        else:
            for node in range(len(state.free)):
                state.claimed[node] = min(state.free[node], state.room[node])
            width = place(kind, jobs.devices[j], state.claimed, state)
        if width > 0:
            _start_waiting(j, now, width, jobs, causes, state)
            if not sooner:
                release(j, state.room, -1, state)
        elif sooner and is_relaxed(j, now, rules, state):
            too_large = jobs.devices[j]
    return at


@pasted
def _reserve(head: int, now: float, jobs: JobTable, rules: Rules, state: State) -> float:
    """When the head is expected to start; `state.room` is then what is idle beside it on each node."""
    for node in range(len(state.free)):
        state.room[node] = state.free[node]
    relaxes = state.queued[head] + rules.relax_s
    looked = relaxes <= now
    for i in range(state.at[NUM_RUNNING]):
        j = state.running[i]
        end = max(state.run_key[j], now)
        if not looked and relaxes < end:
            looked = True
            if _reserved(rules.relaxed, head, jobs, state):
                return relaxes
        release(j, state.room, 1, state)
        following = state.running[i + 1] if i + 1 < state.at[NUM_RUNNING] else -1
        if following >= 0 and state.run_key[following] <= end:
            continue
        if _reserved(placement_of(head, end, rules, state), head, jobs, state):
            return end
    if not looked and relaxes < NEVER and _reserved(rules.relaxed, head, jobs, state):
        return relaxes
    return NEVER


@pasted
def _reserved(kind: int, head: int, jobs: JobTable, state: State) -> bool:
    """Find nodes for the head in `state.room` and take them."""
    width = place(kind, jobs.devices[head], state.room, state)
    for k in range(width):
        state.room[state.picked[k]] -= state.uses[k]
    return width > 0
