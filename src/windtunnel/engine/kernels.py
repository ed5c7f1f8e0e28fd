"""The event loop of the engine, jitted. `reference.py` is its plain twin: same arithmetic, same order, same bits.

State lives in arrays of records. Time moves from one event to the next; an event is the end of a task or a wave
boundary at which a kernel gives up or takes slots. Speeds are recomputed only after tasks started or ended, and
only in the connected component of tasks joined by rates that are asked for more than they have.
"""

# Numba's decorators and record arrays have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return,call-overload,no-untyped-call"

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float64, int32, int64, types

from windtunnel.jit import helper, kernel

CAPACITY_SLACK = 1e-9
"""A rate counts as overloaded beyond capacity · (1 + this); absorbs the rounding of running sums."""
LEVEL_SLACK = 1e-12
"""Filling levels closer than this (relative) freeze in one round."""
WAVE_SLACK = 1e-9
"""A task this close to a wave boundary (in waves) is at it."""

OK, DEADLOCK, STARVED = 0, 1, 2
HEAP, DIRTY, EPOCH, TOUCHED, PLACES, SPARE = range(6)
"""Index of each count: events filed, rates to share anew, rounds of sharing, pools to grant from, places made,
spare."""

Array = Any


EVENT = np.dtype([("key", "f8"), ("row", "i4"), ("place", "i4")], align=True)
"""Running tasks by (time of their next event, row): a binary heap."""
TASK = np.dtype(
    [(name, "f8") for name in ("alone", "weight", "own", "left", "since", "speed", "scale", "new", "start")]
    + [(name, "i8") for name in ("first", "last", "blocks", "boundary")]
    + [(name, "i4") for name in ("row", "blame", "mark", "pos", "member", "spare")]
    + [(name, "i4") for name in ("pool", "priority", "size", "want", "least", "waves", "granted", "before", "after")]
    + [("flagged", "?")],
    align=True,
)
"""A task from ready to ended, at a place of the working set that later tasks use again.

Own time of the current grant, what is left of it, speed, demand scale (share of the work / own time), entries on rates,
place in the heap, scratch of progressive filling; its claim on a slot pool, linked in the pool's list of runners
(in order of arrival) or waiters (by priority and row).
"""
ENTRY = np.dtype(
    [("work", "f8"), ("demand", "f8")] + [(name, "i4") for name in ("rate", "owner", "after", "before")], align=True
)
"""Work of one task on one rate; linked to the other running entries of that rate in order of arrival."""
RATE = np.dtype(
    [(name, "f8") for name in ("capacity", "limit", "load", "level")]
    + [(name, "i4") for name in ("count", "head", "tail", "mark", "listed", "member")]
    + [("dirty", "?"), ("touched", "?")],
    align=True,
)
POOL = np.dtype(
    [("free", "i8")]
    + [(n, "i4") for n in ("run_head", "run_tail", "wait_head", "under", "num_flagged", "freed_by", "listed")]
    + [("touched", "?")],
    align=True,
)
"""Free slots, who runs, who waits, how many runners have fewer slots than they want or wait for a wave boundary."""


@helper
def _sift_up(heap: Array, tasks: Array, j: int) -> None:
    key, row, place = heap[j].key, heap[j].row, heap[j].place
    while j > 0:
        up = (j - 1) >> 1
        if heap[up].key < key or (heap[up].key == key and heap[up].row < row):
            break
        heap[j].key = heap[up].key
        heap[j].row = heap[up].row
        heap[j].place = heap[up].place
        tasks[heap[j].place].pos = j
        j = up
    heap[j].key = key
    heap[j].row = row
    heap[j].place = place
    tasks[place].pos = j


@helper
def _sift_down(heap: Array, tasks: Array, count: Array, j: int) -> None:
    key, row, place = heap[j].key, heap[j].row, heap[j].place
    size = count[HEAP]
    while True:
        down = 2 * j + 1
        if down >= size:
            break
        other = down + 1
        if other < size and (
            heap[other].key < heap[down].key or (heap[other].key == heap[down].key and heap[other].row < heap[down].row)
        ):
            down = other
        if key < heap[down].key or (key == heap[down].key and row < heap[down].row):
            break
        heap[j].key = heap[down].key
        heap[j].row = heap[down].row
        heap[j].place = heap[down].place
        tasks[heap[j].place].pos = j
        j = down
    heap[j].key = key
    heap[j].row = row
    heap[j].place = place
    tasks[place].pos = j


@helper
def _schedule(heap: Array, tasks: Array, count: Array, i: int, key: float) -> None:
    """File the next event of task i or move it to another time."""
    j = tasks[i].pos
    if j < 0:
        j = count[HEAP]
        count[HEAP] = j + 1
        heap[j].key = key
        heap[j].row = tasks[i].row
        heap[j].place = i
        _sift_up(heap, tasks, j)
    elif key < heap[j].key:
        heap[j].key = key
        _sift_up(heap, tasks, j)
    elif key > heap[j].key:
        heap[j].key = key
        _sift_down(heap, tasks, count, j)


@helper
def _pop(heap: Array, tasks: Array, count: Array) -> int:
    """Take out the earliest event; the task it belongs to."""
    place = heap[0].place
    tasks[place].pos = -1
    last = count[HEAP] - 1
    count[HEAP] = last
    if last > 0:
        heap[0].key = heap[last].key
        heap[0].row = heap[last].row
        heap[0].place = heap[last].place
        _sift_down(heap, tasks, count, 0)
    return place


@helper
def _mark_dirty(rates: Array, count: Array, rate: int) -> None:
    if not rates[rate].dirty:
        rates[rate].dirty = True
        rates[count[DIRTY]].listed = rate
        count[DIRTY] += 1


@helper
def _attach(tasks: Array, entries: Array, rates: Array, count: Array, scale: float, i: int) -> None:
    """Load the rates of task i."""
    for e in range(tasks[i].first, tasks[i].last):
        demand = entries[e].work * scale
        entries[e].demand = demand
        if demand <= 0.0:
            continue
        r = entries[e].rate
        tail = rates[r].tail
        entries[e].before = tail
        entries[e].after = -1
        if tail >= 0:
            entries[tail].after = e
        else:
            rates[r].head = e
        rates[r].tail = e
        rates[r].count += 1
        rates[r].load += demand
        if rates[r].load > rates[r].limit:
            _mark_dirty(rates, count, r)


@helper
def _detach(tasks: Array, entries: Array, rates: Array, count: Array, i: int) -> None:
    """Take the load of task i off its rates."""
    for e in range(tasks[i].first, tasks[i].last):
        demand = entries[e].demand
        if demand <= 0.0:
            continue
        r = entries[e].rate
        if rates[r].load > rates[r].limit:
            _mark_dirty(rates, count, r)
        before, after = entries[e].before, entries[e].after
        if before >= 0:
            entries[before].after = after
        else:
            rates[r].head = after
        if after >= 0:
            entries[after].before = before
        else:
            rates[r].tail = before
        rates[r].count -= 1
        if rates[r].count == 0:
            rates[r].load = 0.0
        else:
            rates[r].load -= demand


@helper
def _next_event(tasks: Array, i: int, now: float) -> float:
    """When task i ends, or reaches the wave boundary it is waiting for, at its present speed."""
    if tasks[i].speed <= 0.0:
        return np.inf
    if tasks[i].flagged:
        tau = tasks[i].alone / tasks[i].waves
        ahead = tasks[i].boundary * tau - (tasks[i].own - tasks[i].left)
        if ahead <= 0.0:
            return now
        return now + ahead / tasks[i].speed
    return now + tasks[i].left / tasks[i].speed


@helper
def _advance(tasks: Array, i: int, now: float) -> None:
    """Bring what is left of task i up to date."""
    left = tasks[i].left - tasks[i].speed * (now - tasks[i].since)
    tasks[i].left = left if left > 0.0 else 0.0
    tasks[i].since = now


@helper
def _component(tasks: Array, entries: Array, rates: Array, count: Array, seed: int) -> tuple[int, int]:
    """Collect tasks and rates joined to `seed` through overloaded rates; numbers of tasks and rates."""
    epoch = count[EPOCH]
    num_tasks, num_rates, j = 0, 1, 0
    rates[0].member = seed
    rates[seed].mark = epoch
    while j < num_rates:
        e = rates[rates[j].member].head
        j += 1
        while e >= 0:
            i = entries[e].owner
            if tasks[i].mark != epoch:
                tasks[i].mark = epoch
                tasks[num_tasks].member = i
                num_tasks += 1
                tasks[i].new = -1.0
                for other in range(tasks[i].first, tasks[i].last):
                    r = entries[other].rate
                    if rates[r].mark != epoch and entries[other].demand > 0.0 and rates[r].load > rates[r].limit:
                        rates[r].mark = epoch
                        rates[num_rates].member = r
                        num_rates += 1
            e = entries[e].after
    return num_tasks, num_rates


@helper
def _level(tasks: Array, entries: Array, rates: Array, r: int) -> float:
    """Level at which rate r saturates, given the speeds frozen so far; infinite when nothing on it can still rise."""
    rest = rates[r].capacity
    slope = 0.0
    e = rates[r].head
    while e >= 0:
        i = entries[e].owner
        if tasks[i].new < 0.0:
            slope += entries[e].demand * tasks[i].weight
        else:
            rest -= entries[e].demand * tasks[i].new
        e = entries[e].after
    if slope <= 0.0:
        return np.inf
    if rest <= 0.0:
        return 0.0
    return rest / slope


@helper
def _touch(tasks: Array, entries: Array, rates: Array, i: int) -> None:
    for e in range(tasks[i].first, tasks[i].last):
        rates[entries[e].rate].touched = True


@helper
def _fill(tasks: Array, entries: Array, rates: Array, num_tasks: int, num_rates: int) -> None:
    """Weighted max-min by progressive filling over one component: new speeds in `fill.new`."""
    if rates[rates[0].member].load <= rates[rates[0].member].limit:  # the seed has just been relieved: it binds nobody
        rates[rates[0].member].level = np.inf
    else:
        rates[rates[0].member].level = _level(tasks, entries, rates, rates[0].member)
    for j in range(1, num_rates):
        rates[rates[j].member].level = _level(tasks, entries, rates, rates[j].member)
    rising = num_tasks
    while rising > 0:
        best = np.inf
        for j in range(num_rates):
            if rates[rates[j].member].level < best:
                best = rates[rates[j].member].level
        if best == np.inf:
            for j in range(num_tasks):
                if tasks[tasks[j].member].new < 0.0:
                    tasks[tasks[j].member].new = 1.0
            return
        for j in range(num_tasks):
            i = tasks[j].member
            if tasks[i].new < 0.0 and 1.0 / tasks[i].weight < best:
                best = 1.0 / tasks[i].weight
        cut = best * (1.0 + LEVEL_SLACK)
        for j in range(num_rates):
            rates[rates[j].member].touched = False
        for j in range(num_tasks):
            i = tasks[j].member
            if tasks[i].new < 0.0 and 1.0 / tasks[i].weight <= cut:
                tasks[i].new = 1.0
                rising -= 1
                _touch(tasks, entries, rates, i)
        for j in range(num_rates):
            r = rates[j].member
            if rates[r].level <= cut:
                rates[r].level = np.inf
                e = rates[r].head
                while e >= 0:
                    i = entries[e].owner
                    if tasks[i].new < 0.0:
                        speed = best * tasks[i].weight
                        tasks[i].new = speed if speed < 1.0 else 1.0
                        rising -= 1
                        _touch(tasks, entries, rates, i)
                    e = entries[e].after
        if rising > 0:
            for j in range(num_rates):
                r = rates[j].member
                if rates[r].touched and rates[r].level < np.inf:
                    rates[r].level = _level(tasks, entries, rates, r)


@helper
def _share(heap: Array, tasks: Array, entries: Array, rates: Array, count: Array, now: float) -> None:
    """Solve every component that holds a dirty rate and move the events of tasks whose speed changed."""
    count[EPOCH] += 1
    for d in range(count[DIRTY]):
        seed = rates[d].listed
        rates[seed].dirty = False
        if rates[seed].mark == count[EPOCH]:
            continue
        num_tasks, num_rates = _component(tasks, entries, rates, count, seed)
        _fill(tasks, entries, rates, num_tasks, num_rates)
        for j in range(num_tasks):
            i = tasks[j].member
            if tasks[i].new != tasks[i].speed:
                _advance(tasks, i, now)
                tasks[i].speed = tasks[i].new
                _schedule(heap, tasks, count, i, _next_event(tasks, i, now))
    count[DIRTY] = 0


@helper
def _begin(heap: Array, tasks: Array, entries: Array, rates: Array, count: Array, i: int, now: float) -> None:
    """Put task i on its rates and in the heap; `own` and `scale` are set."""
    tasks[i].left = tasks[i].own
    tasks[i].since = now
    tasks[i].speed = 1.0
    if tasks[i].scale > 0.0:
        _attach(tasks, entries, rates, count, tasks[i].scale, i)
    _schedule(heap, tasks, count, i, _next_event(tasks, i, now))


@helper
def _touch_pool(pools: Array, count: Array, q: int) -> None:
    if not pools[q].touched:
        pools[q].touched = True
        pools[count[TOUCHED]].listed = q
        count[TOUCHED] += 1


@helper
def _enqueue(tasks: Array, pools: Array, i: int) -> None:
    """Insert task i in its pool's waiting list by (priority, row)."""
    q = tasks[i].pool
    before, j = -1, pools[q].wait_head
    while j >= 0 and (
        tasks[j].priority > tasks[i].priority
        or (tasks[j].priority == tasks[i].priority and tasks[j].row < tasks[i].row)
    ):
        before, j = j, tasks[j].after
    tasks[i].after = j
    if before < 0:
        pools[q].wait_head = i
    else:
        tasks[before].after = i


@helper
def _leave_pool(tasks: Array, pools: Array, i: int) -> None:
    """Return the slots of running task i."""
    q = tasks[i].pool
    before, after = tasks[i].before, tasks[i].after
    if before >= 0:
        tasks[before].after = after
    else:
        pools[q].run_head = after
    if after >= 0:
        tasks[after].before = before
    else:
        pools[q].run_tail = before
    pools[q].free += tasks[i].granted
    if tasks[i].waves > 0 and tasks[i].granted < tasks[i].want:
        pools[q].under -= 1
    if tasks[i].flagged:
        tasks[i].flagged = False
        pools[q].num_flagged -= 1
    tasks[i].granted = 0


@helper
def _join_pool(tasks: Array, pools: Array, i: int, slots: int) -> None:
    """Give task i slots: its own time follows the staircase, its demands follow its own time."""
    q = tasks[i].pool
    tail = pools[q].run_tail
    tasks[i].before = tail
    tasks[i].after = -1
    if tail >= 0:
        tasks[tail].after = i
    else:
        pools[q].run_head = i
    pools[q].run_tail = i
    pools[q].free -= slots
    tasks[i].granted = slots
    waves = tasks[i].waves
    if waves > 0 and slots < tasks[i].want:
        pools[q].under += 1
    total = tasks[i].size
    if waves == 0:
        tasks[i].own = tasks[i].alone if slots == total else tasks[i].alone * total / slots
        tasks[i].scale = 1.0 / tasks[i].own
    elif slots == total and tasks[i].blocks == waves * total:
        tasks[i].own = tasks[i].alone
        tasks[i].scale = 1.0 / tasks[i].own
    else:
        steps = (tasks[i].blocks + slots - 1) // slots
        tasks[i].own = steps * (tasks[i].alone / waves)
        tasks[i].scale = (tasks[i].blocks / (waves * total)) / tasks[i].own


@helper
def _waves_done(tasks: Array, i: int, now: float) -> int:
    """Waves of the current grant that have ended at the next wave boundary (now, if task i is at one)."""
    done = tasks[i].own - (tasks[i].left - tasks[i].speed * (now - tasks[i].since))
    count = np.ceil(done / (tasks[i].alone / tasks[i].waves) - WAVE_SLACK)
    return int64(count) if count > 0.0 else 0


@helper
def _shortfall(tasks: Array, i: int, now: float) -> int:
    """Slots that running task i could still use from its next wave boundary on."""
    if tasks[i].waves == 0 or tasks[i].granted >= tasks[i].want:
        return 0
    rest = tasks[i].blocks - _waves_done(tasks, i, now) * tasks[i].granted
    lack = min(tasks[i].want, rest) - tasks[i].granted
    return lack if lack > 0 else 0


@helper
def _wanted(tasks: Array, i: int) -> int:
    """Slots that waiting task i asks for."""
    if tasks[i].waves > 0 and tasks[i].blocks < tasks[i].want:
        return tasks[i].blocks
    return tasks[i].want


@helper
def _claims(tasks: Array, pools: Array, i: int, waiting: bool, strict: bool, now: float) -> int:
    """Slots claimed in the pool of task i by tasks of higher priority and, unless strict, by those launched earlier."""
    q = tasks[i].pool
    total = 0
    if pools[q].under > 0:
        j = pools[q].run_head
        while j >= 0:
            if tasks[j].priority > tasks[i].priority or (
                not strict and tasks[j].priority == tasks[i].priority and tasks[j].row < tasks[i].row
            ):
                total += _shortfall(tasks, j, now)
            j = tasks[j].after
    if waiting:
        j = pools[q].wait_head
        while j >= 0:
            if tasks[j].priority > tasks[i].priority or (
                not strict and tasks[j].priority == tasks[i].priority and tasks[j].row < tasks[i].row
            ):
                total += _wanted(tasks, j)
            j = tasks[j].after
    return total


@helper
def _target(tasks: Array, pools: Array, i: int, done: int, now: float) -> int:
    """Slots of running task i after its next wave boundary: it first serves higher priorities, then grows."""
    free = pools[tasks[i].pool].free
    granted = tasks[i].granted
    lack = _claims(tasks, pools, i, True, True, now) - free
    if lack > 0:
        slots = granted - lack
        return slots if slots >= tasks[i].least else 0
    if granted >= tasks[i].want:
        return granted
    spare = free - _claims(tasks, pools, i, True, False, now)
    limit = min(tasks[i].want, tasks[i].blocks - done * granted)
    if spare <= 0 or limit <= granted:
        return granted
    return min(limit, granted + spare)


@helper
def _grant(heap: Array, tasks: Array, entries: Array, rates: Array, pools: Array, count: Array, now: float) -> None:
    """Grant slots in every pool that changed, then ask running kernels to change at their next wave boundary."""
    for d in range(count[TOUCHED]):
        q = pools[d].listed
        pools[q].touched = False
        while pools[q].wait_head >= 0:
            i = pools[q].wait_head
            wanted = _wanted(tasks, i)
            slots = min(wanted, pools[q].free - _claims(tasks, pools, i, False, False, now))
            if slots <= 0 or slots < min(tasks[i].least, wanted):
                break
            pools[q].wait_head = tasks[i].after
            _join_pool(tasks, pools, i, slots)
            if tasks[i].start < 0.0:
                tasks[i].start = now
                if now > tasks[i].since:  # it was ready before and waited for slots
                    tasks[i].blame = pools[q].freed_by
            _begin(heap, tasks, entries, rates, count, i, now)
        if pools[q].wait_head < 0 and pools[q].under == 0 and pools[q].num_flagged == 0:
            continue
        i = pools[q].run_head
        while i >= 0:
            if tasks[i].waves > 0:
                done = _waves_done(tasks, i, now)
                ask = (
                    tasks[i].blocks > done * tasks[i].granted
                    and _target(tasks, pools, i, done, now) != tasks[i].granted
                )
                if ask != tasks[i].flagged:
                    tasks[i].flagged = ask
                    pools[q].num_flagged += 1 if ask else -1
                    tasks[i].boundary = done
                    _advance(tasks, i, now)
                    _schedule(heap, tasks, count, i, _next_event(tasks, i, now))
            i = tasks[i].after
    count[TOUCHED] = 0


@helper
def _at_boundary(
    heap: Array, tasks: Array, entries: Array, rates: Array, pools: Array, count: Array, i: int, now: float
) -> None:
    """Task i reached the wave boundary it was asked to stop at: give up or take slots, or go back to waiting."""
    q = tasks[i].pool
    _advance(tasks, i, now)
    done = tasks[i].boundary
    slots = _target(tasks, pools, i, done, now)
    if slots == tasks[i].granted:
        tasks[i].flagged = False
        pools[q].num_flagged -= 1
        _schedule(heap, tasks, count, i, _next_event(tasks, i, now))
        return
    tasks[i].blocks -= done * tasks[i].granted
    _detach(tasks, entries, rates, count, i)
    _leave_pool(tasks, pools, i)
    pools[q].freed_by = tasks[i].row
    _touch_pool(pools, count, q)
    if slots == 0:
        tasks[i].since = now
        _enqueue(tasks, pools, i)
    else:
        _join_pool(tasks, pools, i, slots)
        _begin(heap, tasks, entries, rates, count, i, now)


@helper
def _admit(
    tasks: Array,
    entries: Array,
    count: Array,
    alone: Array,
    weight: Array,
    rate_ptr: Array,
    rate_idx: Array,
    rate_work: Array,
    stream_ptr: Array,
    stream_idx: Array,
    slot_pool: Array,
    slots: Array,
    min_slots: Array,
    waves: Array,
    priority: Array,
    pool_slots: Array,
    by: int,
    row: int,
) -> int:
    """Give a task that has become ready, last of all by the end of task `by`, a place in the working set."""
    if count[SPARE] > 0:
        count[SPARE] -= 1
        i = int64(tasks[count[SPARE]].spare)
    else:
        i = count[PLACES]
        count[PLACES] += 1
    tasks[i].row = row
    tasks[i].alone = alone[row]
    tasks[i].weight = weight[row]
    tasks[i].start = -1.0
    tasks[i].blame = by
    tasks[i].pos = -1
    tasks[i].pool = -1
    tasks[i].flagged = False
    tasks[i].first = rate_ptr[row]
    tasks[i].last = rate_ptr[row + 1]
    for e in range(rate_ptr[row], rate_ptr[row + 1]):
        entries[e].owner = i
        entries[e].rate = rate_idx[e]
        entries[e].work = rate_work[e]
        entries[e].demand = 0.0
    if len(pool_slots) > 0 and slot_pool[row] >= 0 and slots[row] > 0 and alone[row] > 0.0:
        tasks[i].pool = slot_pool[row]
        tasks[i].size = slots[row]
        tasks[i].want = min(slots[row], pool_slots[slot_pool[row]])
        tasks[i].least = max(min_slots[row], 1)
        tasks[i].waves = waves[row]
        tasks[i].blocks = int64(waves[row]) * slots[row]
        tasks[i].granted = 0
        tasks[i].priority = 0
        for s in range(stream_ptr[row], stream_ptr[row + 1]):
            if s == stream_ptr[row] or priority[stream_idx[s]] > tasks[i].priority:
                tasks[i].priority = priority[stream_idx[s]]
    return i


@helper
def _start(
    heap: Array, tasks: Array, entries: Array, rates: Array, pools: Array, count: Array, i: int, now: float
) -> None:
    """Start a task that has just become ready or, if it needs slots, let it wait for them."""
    if tasks[i].pool >= 0:
        tasks[i].since = now
        _enqueue(tasks, pools, i)
        _touch_pool(pools, count, tasks[i].pool)
        return
    tasks[i].start = now
    tasks[i].own = tasks[i].alone
    tasks[i].scale = 1.0 / tasks[i].alone if tasks[i].alone > 0.0 else 0.0
    _begin(heap, tasks, entries, rates, count, i, now)


@kernel()
def _links(
    n: int, num_streams: int, stream_ptr: Array, stream_idx: Array, dep_ptr: Array, dep_idx: Array
) -> tuple[Array, Array, Array]:
    """Successors of every task (CSR) and its number of predecessors, from dependencies and stream order."""
    pending = np.zeros(n, np.int32)
    ptr = np.zeros(n + 2, np.int64)
    last = np.full(num_streams, -1, np.int32)
    for i in range(n):
        for e in range(dep_ptr[i], dep_ptr[i + 1]):
            ptr[dep_idx[e] + 2] += 1
            pending[i] += 1
        for e in range(stream_ptr[i], stream_ptr[i + 1]):
            j = last[stream_idx[e]]
            last[stream_idx[e]] = i
            if j >= 0 and j != i:
                ptr[j + 2] += 1
                pending[i] += 1
    for i in range(n):
        ptr[i + 2] += ptr[i + 1]
    idx = np.empty(ptr[n + 1], np.int32)
    last[:] = -1
    for i in range(n):
        for e in range(dep_ptr[i], dep_ptr[i + 1]):
            j = dep_idx[e]
            idx[ptr[j + 1]] = i
            ptr[j + 1] += 1
        for e in range(stream_ptr[i], stream_ptr[i + 1]):
            j = last[stream_idx[e]]
            last[stream_idx[e]] = i
            if j >= 0 and j != i:
                idx[ptr[j + 1]] = i
                ptr[j + 1] += 1
    return ptr, idx, pending


_F, _I, _L = float64[::1], int32[::1], int64[::1]


@kernel(types.Tuple((_F, _F, _I, int64))(_F, _F, _L, _I, _L, _I, _L, _I, _F, _I, _I, _I, _I, _I, _F, _I))
def run(
    alone: Array,
    weight: Array,
    stream_ptr: Array,
    stream_idx: Array,
    dep_ptr: Array,
    dep_idx: Array,
    rate_ptr: Array,
    rate_idx: Array,
    rate_work: Array,
    slot_pool: Array,
    slots: Array,
    min_slots: Array,
    waves: Array,
    priority: Array,
    capacity: Array,
    pool_slots: Array,
) -> tuple[Array, Array, Array, int]:
    """Simulate; start and end times (−1 where never reached), blamed tasks, and a status code."""
    n, num_rates, num_pools = len(alone), len(capacity), len(pool_slots)
    succ_ptr, succ_idx, pending = _links(n, len(priority), stream_ptr, stream_idx, dep_ptr, dep_idx)
    count = np.zeros(6, np.int64)
    heap = np.empty(n, EVENT)
    tasks = np.zeros(n, TASK)
    entries = np.empty(len(rate_idx), ENTRY)
    rates = np.zeros(num_rates, RATE)
    pools = np.zeros(num_pools, POOL)
    for r in range(num_rates):
        rates[r].capacity = capacity[r]
        rates[r].limit = capacity[r] * (1.0 + CAPACITY_SLACK)
        rates[r].head = -1
        rates[r].tail = -1
    for q in range(num_pools):
        pools[q].free = pool_slots[q]
        pools[q].run_head = -1
        pools[q].run_tail = -1
        pools[q].wait_head = -1
        pools[q].freed_by = -1
    start = np.full(n, -1.0)
    end = np.full(n, -1.0)
    blame = np.full(n, -1, np.int32)
    now = 0.0
    status = OK
    for row in range(n):
        if pending[row] == 0:
            i = _admit(
                tasks,
                entries,
                count,
                alone,
                weight,
                rate_ptr,
                rate_idx,
                rate_work,
                stream_ptr,
                stream_idx,
                slot_pool,
                slots,
                min_slots,
                waves,
                priority,
                pool_slots,
                -1,
                row,
            )
            _start(heap, tasks, entries, rates, pools, count, i, now)
    if count[TOUCHED] > 0:
        _grant(heap, tasks, entries, rates, pools, count, now)
    while count[HEAP] > 0:
        if heap[0].key > now:
            if count[DIRTY] > 0:
                _share(heap, tasks, entries, rates, count, now)
            now = heap[0].key
            if now == np.inf:
                status = STARVED
                break
        i = _pop(heap, tasks, count)
        if tasks[i].flagged:
            _at_boundary(heap, tasks, entries, rates, pools, count, i, now)
        else:
            row = tasks[i].row
            start[row] = tasks[i].start
            end[row] = now
            blame[row] = tasks[i].blame
            if tasks[i].scale > 0.0:
                _detach(tasks, entries, rates, count, i)
            q = tasks[i].pool
            if q >= 0:
                _leave_pool(tasks, pools, i)
                pools[q].freed_by = row
                _touch_pool(pools, count, q)
            tasks[count[SPARE]].spare = i
            count[SPARE] += 1
            for e in range(succ_ptr[row], succ_ptr[row + 1]):
                other = succ_idx[e]
                pending[other] -= 1
                if pending[other] == 0:
                    i = _admit(
                        tasks,
                        entries,
                        count,
                        alone,
                        weight,
                        rate_ptr,
                        rate_idx,
                        rate_work,
                        stream_ptr,
                        stream_idx,
                        slot_pool,
                        slots,
                        min_slots,
                        waves,
                        priority,
                        pool_slots,
                        row,
                        other,
                    )
                    _start(heap, tasks, entries, rates, pools, count, i, now)
        if count[TOUCHED] > 0 and (count[HEAP] == 0 or heap[0].key > now):
            _grant(heap, tasks, entries, rates, pools, count, now)
    for j in range(count[HEAP]):  # only after a failure
        start[heap[j].row] = tasks[heap[j].place].start
    if status == OK and end.min() < 0.0:
        status = DEADLOCK
    return start, end, blame, status
