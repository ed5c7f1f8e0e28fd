"""Watts of rows, their managers and brakes, and the clocks of jobs: jitted. `power_twin.py` is the plain twin."""

# Numba's decorators have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return"

from __future__ import annotations

from windtunnel.clusters.event_loop.failures_kernel import note_held_back, slow_down
from windtunnel.clusters.event_loop.power_records import BRAKE, FIRST, FULL, SECOND, Feeds, FeedState, PowerLog
from windtunnel.clusters.event_loop.records import NEVER, NUM_RUNNING, State
from windtunnel.jit import helper, pasted


@pasted
def next_wake(now: float, feeds: Feeds, rows: FeedState) -> float:
    """When a manager or a brake acts next, or a fleet's watts change with the hour."""
    soonest = NEVER
    for row in range(len(feeds.limit_w)):
        soonest = min(soonest, rows.acts_at[row], rows.released_at[row])
        if rows.over_since[row] < NEVER and rows.braked[row] == 0:
            soonest = min(soonest, rows.over_since[row] + feeds.brake_s)
    hours = feeds.fleet_w.shape[1]
    if hours > 0:
        passed = (now - feeds.begin_s) // 3600.0 + 1.0
        if passed < hours:
            soonest = min(soonest, feeds.begin_s + 3600.0 * passed)
    return max(soonest, now)


@helper
def act(now: float, feeds: Feeds, rows: FeedState) -> None:
    """Commands that are due act, and brakes come."""
    for row in range(len(feeds.limit_w)):
        if rows.acts_at[row] <= now:
            rows.low[row], rows.high[row], rows.acts_at[row] = rows.next_low[row], rows.next_high[row], NEVER
            rows.changed[row] = 1
        if rows.released_at[row] <= now:
            rows.braked[row], rows.released_at[row], rows.changed[row] = 0, NEVER, 1
        if rows.braked[row] == 0 and rows.over_since[row] + feeds.brake_s <= now:
            rows.braked[row], rows.over_since[row], rows.changed[row] = 1, NEVER, 1
            rows.brakes[row] += 1


@pasted
def _clock(j: int, feeds: Feeds, rows: FeedState, state: State) -> int:
    """The lowest clock of a job's rows: it waits for its slowest device."""
    slot, clock = state.slot[j], FULL
    for i in range(state.slot_width[slot]):
        row = feeds.row_of[state.slot_nodes[slot, i]]
        own = rows.high[row] if feeds.high[j] == 1 else rows.low[row]
        clock = max(clock, BRAKE if rows.braked[row] == 1 else own)
    return clock


@helper
def read_rows(now: float, feeds: Feeds, rows: FeedState, log: PowerLog, state: State) -> None:
    """Set the clocks of jobs, sum up what rows draw, and let their managers look at it."""
    for row in range(len(feeds.limit_w)):
        rows.was_mean_w[row], rows.was_peak_w[row] = rows.mean_w[row], rows.peak_w[row]
        rows.mean_w[row] = rows.peak_w[row] = feeds.idle_w[row]
    hours = feeds.fleet_w.shape[1]
    hour = min(max(int((now - feeds.begin_s) // 3600.0), 0), hours - 1)
    for i in range(state.at[NUM_RUNNING]):
        j = state.running[i]
        clock = _clock(j, feeds, rows, state)
        if clock != state.lock[j]:
            note_held_back(j, now, state)
            slow_down(j, now, state.clock_speed[j] / feeds.speed[j, clock], state)
            state.clock_speed[j], state.lock[j] = feeds.speed[j, clock], clock
        mean_w, peak_w = feeds.mean_w[j, clock], feeds.peak_w[j, clock]
        if feeds.fleet[j] >= 0:
            mean_w = peak_w = feeds.fleet_w[feeds.fleet[j], hour, clock]
        slot = state.slot[j]
        for k in range(state.slot_width[slot]):
            row, held = feeds.row_of[state.slot_nodes[slot, k]], state.slot_uses[slot, k]
            rows.mean_w[row] += mean_w * held
            rows.peak_w[row] += peak_w * held
    for row in range(len(feeds.limit_w)):
        same = rows.mean_w[row] == rows.was_mean_w[row] and rows.peak_w[row] == rows.was_peak_w[row]
        if not same or rows.changed[row] == 1:
            _manage(row, now, feeds, rows)
            _write(row, now, rows, log)


@pasted
def _manage(row: int, now: float, feeds: Feeds, rows: FeedState) -> None:
    """Look at a row's watts and decide; while the brake holds, nothing is taken back."""
    share = rows.peak_w[row] / feeds.limit_w[row]
    braked = rows.braked[row] == 1
    if share <= 1.0:
        rows.over_since[row] = NEVER
    elif not braked and rows.over_since[row] >= NEVER:
        rows.over_since[row] = now
    if braked and rows.released_at[row] >= NEVER and share < feeds.second - feeds.release:
        rows.released_at[row] = now + feeds.delay_s
    if not feeds.caps or rows.acts_at[row] < NEVER:
        return
    low, high = rows.low[row], rows.high[row]
    if braked or share > feeds.second:
        high = FIRST if low == SECOND else high
        low = SECOND
    elif share > feeds.first:
        low = max(low, FIRST)
    if not braked and share < feeds.second - feeds.release:
        low, high = min(low, FIRST), FULL
    if not braked and share < feeds.first - feeds.release:
        low = FULL
    if low != rows.low[row] or high != rows.high[row]:
        rows.next_low[row], rows.next_high[row], rows.acts_at[row] = low, high, now + feeds.delay_s


@pasted
def _write(row: int, now: float, rows: FeedState, log: PowerLog) -> None:
    """A line of the log; one of the same moment is written over."""
    rows.changed[row] = 0
    at = rows.at[0]
    for back in range(at - 1, -1, -1):
        if log.time_s[back] < now:
            break
        if log.row[back] == row:
            at = back
            break
    braked = rows.braked[row] == 1
    log.time_s[at], log.row[at] = now, row
    log.mean_w[at], log.peak_w[at] = rows.mean_w[row], rows.peak_w[row]
    log.low[at], log.high[at] = BRAKE if braked else rows.low[row], BRAKE if braked else rows.high[row]
    rows.at[0] = max(rows.at[0], at + 1)
