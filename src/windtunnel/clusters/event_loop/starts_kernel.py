"""Starts and stops of jobs on nodes that were picked: jitted."""

# Numba's decorators have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return"

from __future__ import annotations

from windtunnel.arrays import Ints
from windtunnel.clusters.event_loop.failures_kernel import draw_failure, left, note_held_back, roll_back, set_end
from windtunnel.clusters.event_loop.order_kernel import before
from windtunnel.clusters.event_loop.power_records import FULL
from windtunnel.clusters.event_loop.records import (
    NEVER,
    NUM_RUNNING,
    NUM_SEGMENTS,
    NUM_SLOTS,
    RUNNING,
    Causes,
    JobTable,
    Segments,
    State,
)
from windtunnel.jit import helper, pasted


@helper
def start(j: int, now: float, width: int, jobs: JobTable, causes: Causes, state: State) -> None:
    """Start a job on the nodes that were picked."""
    state.at[NUM_SLOTS] -= 1
    slot = state.free_slots[state.at[NUM_SLOTS]]
    state.slot[j] = slot
    take_nodes(j, width, jobs, state)
    state.status[j] = RUNNING
    state.started[j] = now
    if state.starts[j] == 0:
        state.first_start[j] = now
    state.starts[j] += 1
    state.lost[j], state.fails_at[j] = 0.0, now
    set_finish(j, now, jobs, causes, state)


@pasted
def take_nodes(j: int, width: int, jobs: JobTable, state: State) -> None:
    """Write the picked nodes into the job's slot."""
    slot = state.slot[j]
    state.slot_width[slot] = width
    for i in range(width):
        state.slot_nodes[slot, i], state.slot_uses[slot, i] = state.picked[i], state.uses[i]
    largest = 1
    for node in range(len(state.capacity)):
        largest = max(largest, state.capacity[node])
    fewest = (jobs.devices[j] + largest - 1) // largest
    slowed = 1.0
    for i in range(width):
        slowed = max(slowed, state.slowed[state.picked[i]])
    state.speed[j] = (1.0 if width <= fewest else jobs.spread_speed[j]) / slowed
    state.clock_speed[j], state.lock[j] = 1.0, FULL


@pasted
def set_finish(j: int, now: float, jobs: JobTable, causes: Causes, state: State) -> None:
    """After a start; nobody knows of a node that has failed, and a job on it never gets ready."""
    state.ready[j] = now + jobs.overhead_s[j]
    state.locked[j] = now
    slot = state.slot[j]
    for i in range(state.slot_width[slot]):
        if state.broken[state.slot_nodes[slot, i]] > 0:
            state.ready[j] = NEVER
    if state.fails_at[j] <= now:
        draw_failure(j, now, causes, state)
    set_end(j, state)


@helper
def stop(j: int, now: float, why: int, saves: bool, jobs: JobTable, state: State, segments: Segments) -> None:
    """Take a job off its nodes and note how long it ran; idle devices are the caller's."""
    note_held_back(j, now, state)
    if saves:
        state.remaining[j] = left(state.remaining[j], state.ready[j], state.speed[j], now)
    else:
        roll_back(j, now, jobs, state)
    state.attained[j] += (now - state.started[j]) * jobs.devices[j]
    state.run_s[j] += now - state.started[j]
    slot, row = state.slot[j], state.at[NUM_SEGMENTS]
    segments.job[row], segments.start_s[row], segments.end_s[row] = j, state.started[j], now
    segments.node[row], segments.nodes[row] = state.slot_nodes[slot, 0], state.slot_width[slot]
    segments.why[row], segments.lost_s[row] = why, state.lost[j]
    state.at[NUM_SEGMENTS] = row + 1
    state.free_slots[state.at[NUM_SLOTS]] = slot
    state.at[NUM_SLOTS] += 1
    state.slot[j] = -1


@pasted
def release(j: int, room: Ints, sign: int, state: State) -> None:
    """Add a job's devices to the room of its nodes (sign 1), or take them (−1)."""
    slot = state.slot[j]
    for i in range(state.slot_width[slot]):
        room[state.slot_nodes[slot, i]] += sign * state.slot_uses[slot, i]


@pasted
def join_running(j: int, state: State) -> None:
    """Put a job among those that run, sorted."""
    at = state.at[NUM_RUNNING]
    while at > 0 and before(j, state.running[at - 1], state.run_key):
        state.running[at] = state.running[at - 1]
        at -= 1
    state.running[at] = j
    state.at[NUM_RUNNING] += 1


@pasted
def leave_running(i: int, state: State) -> None:
    """Take a job out of those that run, by its place among them."""
    for k in range(i, state.at[NUM_RUNNING] - 1):
        state.running[k] = state.running[k + 1]
    state.at[NUM_RUNNING] -= 1
