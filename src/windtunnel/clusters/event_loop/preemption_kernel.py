"""Decisions with preemption: all jobs in their order get nodes, those that run and those that wait: jitted."""

# Numba's decorators have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return"

from __future__ import annotations

from windtunnel.arrays import Ints
from windtunnel.clusters.event_loop.failures_kernel import left, note_held_back
from windtunnel.clusters.event_loop.order_kernel import (
    before,
    drop_started,
    enqueue,
    next_place,
    smallest_waiting,
    sort_running,
)
from windtunnel.clusters.event_loop.placement_kernel import is_relaxed, place, placement_of
from windtunnel.clusters.event_loop.records import (
    HIGH,
    LOW,
    NUM_RUNNING,
    PREEMPTED,
    RANKED,
    STRICT,
    Causes,
    JobTable,
    Rules,
    Segments,
    State,
)
from windtunnel.clusters.event_loop.starts_kernel import release, set_finish, start, stop, take_nodes
from windtunnel.jit import helper, pasted


@helper
def _stays(slot: int, room: Ints, claimed: Ints, nodes: Ints, uses: Ints, width: Ints) -> bool:
    """Take back a running job's claim, and give it its nodes again where they are still idle."""
    fits = True
    for i in range(width[slot]):
        claimed[nodes[slot, i]] -= uses[slot, i]
        fits = fits and room[nodes[slot, i]] >= uses[slot, i]
    if fits:
        for i in range(width[slot]):
            room[nodes[slot, i]] -= uses[slot, i]
    return fits


@pasted
def _is_guaranteed(j: int, now: float, rules: Rules, state: State) -> bool:
    """Whether a running job may not be preempted yet."""
    return now < state.started[j] + rules.guaranteed_s


@pasted
def _idle(state: State) -> None:
    """What nobody holds: the room that is left, without what running jobs hold that were not yet looked at."""
    for node in range(len(state.room)):
        state.free[node] = state.room[node] - state.claimed[node]


@pasted
def _gives_way(other: int, j: int, now: float, jobs: JobTable, rules: Rules, state: State) -> bool:
    """Whether a later running job may be preempted for a job."""
    if rules.kind == RANKED and jobs.key[other] <= jobs.key[j]:
        return False
    return not _is_guaranteed(other, now, rules, state)


@helper
def _preempting(kind: int, j: int, unseen: int, now: float, jobs: JobTable, rules: Rules, state: State) -> int:
    """Nodes where later jobs have to give way: of the last ones in the order, as few as it takes.

    Slurm's rule: candidates are taken off one by one until the job fits, and those that hold none of its nodes stay.
    """
    running, last = state.running, state.at[NUM_RUNNING]
    _idle(state)
    for k in range(unseen, last):
        if _gives_way(running[k], j, now, jobs, rules, state):
            release(running[k], state.free, 1, state)
    if place(kind, jobs.devices[j], state.free, state) == 0:
        return 0
    _idle(state)
    most = 0
    for node in range(len(state.free)):
        most += max(state.free[node], 0)
    for k in range(last - 1, unseen - 1, -1):
        if _gives_way(running[k], j, now, jobs, rules, state):
            release(running[k], state.free, 1, state)
            most += jobs.devices[running[k]]
            width = place(kind, jobs.devices[j], state.free, state) if most >= jobs.devices[j] else 0
            if width > 0:
                return width
    return 0


@helper
def _find(j: int, kind: int, unseen: int, now: float, jobs: JobTable, rules: Rules, state: State) -> int:
    """Nodes for a job: where nobody runs if possible, else where later jobs give way. Takes their room.

    Args:
        j: the job.
        kind: of placement.
        unseen: the first running job that comes later.
        now: the moment.
        jobs: all jobs.
        rules: how to decide.
        state: whose `room` and `claimed` are of this decision.
    """
    if rules.repack:
        width = place(kind, jobs.devices[j], state.room, state)
    else:
        _idle(state)
        width = place(kind, jobs.devices[j], state.free, state)
        if width == 0:
            width = _preempting(kind, j, unseen, now, jobs, rules, state)
    for i in range(width):
        state.room[state.picked[i]] -= state.uses[i]
    return width


@pasted
def _move_or_stop(
    j: int, unseen: int, now: float, jobs: JobTable, rules: Rules, causes: Causes, state: State, segments: Segments
) -> bool:
    """Find other nodes for a running job, or stop it; whether it runs."""
    width = _find(j, rules.placement, unseen, now, jobs, rules, state)
    if width > 0 and rules.repack:
        note_held_back(j, now, state)
        state.remaining[j] = left(state.remaining[j], state.ready[j], state.speed[j], now)
        take_nodes(j, width, jobs, state)
        set_finish(j, now, jobs, causes, state)
        return True
    stop(j, now, PREEMPTED, rules.preempted_save, jobs, state, segments)
    if width > 0:
        start(j, now, width, jobs, causes, state)
    return width > 0


@pasted
def _give_places(kept: int, stopped: int, state: State) -> None:
    """Those that start or fell to a level stand behind those that ran; those that stop, before all that wait."""
    for i in range(kept):
        j = state.kept[i]
        if state.fresh[j] == 1:
            state.place[j], state.fresh[j] = next_place(state), 0
    for i in range(stopped, len(state.kept)):
        j = state.kept[i]
        if state.fresh[j] == 0:
            state.place[j] = -next_place(state)
        state.fresh[j] = 0


@pasted
def decide_preemptive(
    now: float, jobs: JobTable, rules: Rules, causes: Causes, state: State, segments: Segments
) -> None:
    """All jobs in their order get nodes, those that run and those that wait alike."""
    sort_running(now, jobs, rules, state)
    room, claimed, running, waiting, key = state.room, state.claimed, state.running, state.waiting, state.run_key
    nodes, uses, widths = state.slot_nodes, state.slot_uses, state.slot_width
    for node in range(len(room)):
        room[node], claimed[node] = state.capacity[node], state.capacity[node] - state.free[node]
    for i in range(state.at[NUM_RUNNING]):
        if _is_guaranteed(running[i], now, rules, state):
            release(running[i], room, -1, state)
            release(running[i], claimed, -1, state)
    num_running, smallest, too_large = state.at[NUM_RUNNING], smallest_waiting(state), len(state.wait_sizes)
    i, at, high, kept, stopped = 0, state.at[LOW], state.at[HIGH], 0, len(state.kept)
    while True:
        waits = at < high and smallest < too_large
        if i < num_running and not (waits and before(waiting[at], running[i], key)):
            j = running[i]
            i += 1
            stays = _is_guaranteed(j, now, rules, state)
            stays = stays or (not rules.repack and _stays(state.slot[j], room, claimed, nodes, uses, widths))
            if stays or _move_or_stop(j, i, now, jobs, rules, causes, state, segments):
                state.kept[kept] = j
                kept += 1
            else:
                stopped -= 1
                state.kept[stopped] = j
            continue
        if not waits:
            break
        j = waiting[at]
        at += 1
        if jobs.devices[j] >= too_large:
            continue
        width = _find(j, placement_of(j, now, rules, state), i, now, jobs, rules, state)
        if width > 0:
            start(j, now, width, jobs, causes, state)
            state.fresh[j] = 1
            state.kept[kept] = j
            kept += 1
        elif rules.blocking == STRICT:
            too_large = 0
        elif is_relaxed(j, now, rules, state):
            too_large = jobs.devices[j]
    drop_started(at, jobs, state)
    for i in range(kept):
        running[i] = state.kept[i]
    state.at[NUM_RUNNING] = kept
    _give_places(kept, stopped, state)
    for i in range(len(state.kept) - 1, stopped - 1, -1):
        enqueue(state.kept[i], now, jobs, rules, state)
    for node in range(len(room)):
        state.free[node] = room[node]
