"""The event loop of the engine, jitted. `reference.py` is its plain twin: same arithmetic, same order, same bits.

State lives in flat arrays grouped in named tuples. Time moves from one event to the next; an event is the end of a task or
a wave boundary at which a kernel gives up or takes slots. Speeds are recomputed only after tasks started or ended, and
only in the connected component of tasks joined by rates that are asked for more than they have.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import float64, int32, int64, njit, types

CAPACITY_SLACK = 1e-9
"""A rate counts as overloaded beyond capacity · (1 + this); absorbs the rounding of running sums."""
LEVEL_SLACK = 1e-12
"""Filling levels closer than this (relative) freeze in one round."""
WAVE_SLACK = 1e-9
"""A task this close to a wave boundary (in waves) is at it."""

OK, DEADLOCK, STARVED = 0, 1, 2

Array = Any


class Heap(NamedTuple):
    """Running tasks by (time of their next event, row)."""

    key: Array
    row: Array
    pos: Array
    size: Array


class Work(NamedTuple):
    """Per task: own time of the current grant, what is left of it, speed, and demand scale (1 / own time)."""

    alone: Array
    weight: Array
    own: Array
    left: Array
    since: Array
    speed: Array
    scale: Array
    start: Array
    end: Array
    blame: Array


class Rates(NamedTuple):
    """Rate entries (CSR), load per rate, and for each rate the running entries as a linked list in order of arrival."""

    ptr: Array
    idx: Array
    work: Array
    owner: Array
    demand: Array
    after: Array
    before: Array
    capacity: Array
    limit: Array
    load: Array
    count: Array
    head: Array
    tail: Array
    dirty: Array
    dirty_list: Array
    dirty_count: Array


class Fill(NamedTuple):
    """Scratch of progressive filling: the component's tasks and rates, new speeds, levels."""

    task_mark: Array
    rate_mark: Array
    epoch: Array
    tasks: Array
    rates: Array
    new: Array
    level: Array
    touched: Array


class Pools(NamedTuple):
    """Slot pools: what is free, who runs (arrival order), who waits (priority, row), who may change at a wave boundary."""

    pool: Array
    want: Array
    least: Array
    waves: Array
    priority: Array
    size: Array
    free: Array
    granted: Array
    blocks: Array
    flagged: Array
    boundary: Array
    run_head: Array
    run_tail: Array
    wait_head: Array
    after: Array
    before: Array
    under: Array
    num_flagged: Array
    touched: Array
    touched_list: Array
    touched_count: Array
    freed_by: Array


@njit(cache=True, error_model="numpy")
def _sift_up(heap: Heap, j: int) -> None:
    key, row = heap.key[j], heap.row[j]
    while j > 0:
        up = (j - 1) >> 1
        if heap.key[up] < key or (heap.key[up] == key and heap.row[up] < row):
            break
        heap.key[j] = heap.key[up]
        heap.row[j] = heap.row[up]
        heap.pos[heap.row[j]] = j
        j = up
    heap.key[j] = key
    heap.row[j] = row
    heap.pos[row] = j


@njit(cache=True, error_model="numpy")
def _sift_down(heap: Heap, j: int) -> None:
    key, row = heap.key[j], heap.row[j]
    size = heap.size[0]
    while True:
        down = 2 * j + 1
        if down >= size:
            break
        other = down + 1
        if other < size and (
            heap.key[other] < heap.key[down] or (heap.key[other] == heap.key[down] and heap.row[other] < heap.row[down])
        ):
            down = other
        if key < heap.key[down] or (key == heap.key[down] and row < heap.row[down]):
            break
        heap.key[j] = heap.key[down]
        heap.row[j] = heap.row[down]
        heap.pos[heap.row[j]] = j
        j = down
    heap.key[j] = key
    heap.row[j] = row
    heap.pos[row] = j


@njit(cache=True, error_model="numpy")
def _schedule(heap: Heap, row: int, key: float) -> None:
    """Insert a row or move it to another time."""
    j = heap.pos[row]
    if j < 0:
        j = heap.size[0]
        heap.size[0] = j + 1
        heap.key[j] = key
        heap.row[j] = row
        _sift_up(heap, j)
    elif key < heap.key[j]:
        heap.key[j] = key
        _sift_up(heap, j)
    elif key > heap.key[j]:
        heap.key[j] = key
        _sift_down(heap, j)


@njit(cache=True, error_model="numpy")
def _pop(heap: Heap) -> int:
    row = heap.row[0]
    heap.pos[row] = -1
    last = heap.size[0] - 1
    heap.size[0] = last
    if last > 0:
        heap.key[0] = heap.key[last]
        heap.row[0] = heap.row[last]
        _sift_down(heap, 0)
    return row


@njit(cache=True, error_model="numpy")
def _mark_dirty(rates: Rates, rate: int) -> None:
    if rates.dirty[rate] == 0:
        rates.dirty[rate] = 1
        rates.dirty_list[rates.dirty_count[0]] = rate
        rates.dirty_count[0] += 1


@njit(cache=True, error_model="numpy")
def _attach(rates: Rates, scale: float, i: int) -> None:
    """Load the rates of task i."""
    for e in range(rates.ptr[i], rates.ptr[i + 1]):
        demand = rates.work[e] * scale
        rates.demand[e] = demand
        if demand <= 0.0:
            continue
        r = rates.idx[e]
        tail = rates.tail[r]
        rates.before[e] = tail
        rates.after[e] = -1
        if tail >= 0:
            rates.after[tail] = e
        else:
            rates.head[r] = e
        rates.tail[r] = e
        rates.count[r] += 1
        rates.load[r] += demand
        if rates.load[r] > rates.limit[r]:
            _mark_dirty(rates, r)


@njit(cache=True, error_model="numpy")
def _detach(rates: Rates, i: int) -> None:
    """Take the load of task i off its rates."""
    for e in range(rates.ptr[i], rates.ptr[i + 1]):
        demand = rates.demand[e]
        if demand <= 0.0:
            continue
        r = rates.idx[e]
        if rates.load[r] > rates.limit[r]:
            _mark_dirty(rates, r)
        before, after = rates.before[e], rates.after[e]
        if before >= 0:
            rates.after[before] = after
        else:
            rates.head[r] = after
        if after >= 0:
            rates.before[after] = before
        else:
            rates.tail[r] = before
        rates.count[r] -= 1
        if rates.count[r] == 0:
            rates.load[r] = 0.0
        else:
            rates.load[r] -= demand


@njit(cache=True, error_model="numpy")
def _next_event(work: Work, pools: Pools, i: int, now: float) -> float:
    """When task i ends, or reaches the wave boundary it is waiting for, at its present speed."""
    if work.speed[i] <= 0.0:
        return np.inf
    if pools.flagged[i]:
        tau = work.alone[i] / pools.waves[i]
        ahead = pools.boundary[i] * tau - (work.own[i] - work.left[i])
        if ahead <= 0.0:
            return now
        return now + ahead / work.speed[i]
    return now + work.left[i] / work.speed[i]


@njit(cache=True, error_model="numpy")
def _advance(work: Work, i: int, now: float) -> None:
    """Bring what is left of task i up to date."""
    left = work.left[i] - work.speed[i] * (now - work.since[i])
    work.left[i] = left if left > 0.0 else 0.0
    work.since[i] = now


@njit(cache=True, error_model="numpy")
def _component(rates: Rates, fill: Fill, seed: int) -> tuple[int, int]:
    """Collect tasks and rates joined to `seed` through overloaded rates; numbers of tasks and rates."""
    epoch = fill.epoch[0]
    num_tasks, num_rates, j = 0, 1, 0
    fill.rates[0] = seed
    fill.rate_mark[seed] = epoch
    while j < num_rates:
        e = rates.head[fill.rates[j]]
        j += 1
        while e >= 0:
            i = rates.owner[e]
            if fill.task_mark[i] != epoch:
                fill.task_mark[i] = epoch
                fill.tasks[num_tasks] = i
                num_tasks += 1
                fill.new[i] = -1.0
                for other in range(rates.ptr[i], rates.ptr[i + 1]):
                    r = rates.idx[other]
                    if fill.rate_mark[r] != epoch and rates.demand[other] > 0.0 and rates.load[r] > rates.limit[r]:
                        fill.rate_mark[r] = epoch
                        fill.rates[num_rates] = r
                        num_rates += 1
            e = rates.after[e]
    return num_tasks, num_rates


@njit(cache=True, error_model="numpy")
def _level(work: Work, rates: Rates, fill: Fill, r: int) -> float:
    """Level at which rate r saturates, given the speeds frozen so far; infinite when nothing on it can still rise."""
    rest = rates.capacity[r]
    slope = 0.0
    e = rates.head[r]
    while e >= 0:
        i = rates.owner[e]
        if fill.new[i] < 0.0:
            slope += rates.demand[e] * work.weight[i]
        else:
            rest -= rates.demand[e] * fill.new[i]
        e = rates.after[e]
    if slope <= 0.0:
        return np.inf
    if rest <= 0.0:
        return 0.0
    return rest / slope


@njit(cache=True, error_model="numpy")
def _touch(rates: Rates, fill: Fill, i: int) -> None:
    for e in range(rates.ptr[i], rates.ptr[i + 1]):
        fill.touched[rates.idx[e]] = True


@njit(cache=True, error_model="numpy")
def _fill(work: Work, rates: Rates, fill: Fill, num_tasks: int, num_rates: int) -> None:
    """Weighted max-min by progressive filling over one component: new speeds in `fill.new`."""
    if rates.load[fill.rates[0]] <= rates.limit[fill.rates[0]]:  # the seed has just been relieved: it binds nobody
        fill.level[fill.rates[0]] = np.inf
    else:
        fill.level[fill.rates[0]] = _level(work, rates, fill, fill.rates[0])
    for j in range(1, num_rates):
        fill.level[fill.rates[j]] = _level(work, rates, fill, fill.rates[j])
    rising = num_tasks
    while rising > 0:
        best = np.inf
        for j in range(num_rates):
            if fill.level[fill.rates[j]] < best:
                best = fill.level[fill.rates[j]]
        if best == np.inf:
            for j in range(num_tasks):
                if fill.new[fill.tasks[j]] < 0.0:
                    fill.new[fill.tasks[j]] = 1.0
            return
        for j in range(num_tasks):
            i = fill.tasks[j]
            if fill.new[i] < 0.0 and 1.0 / work.weight[i] < best:
                best = 1.0 / work.weight[i]
        cut = best * (1.0 + LEVEL_SLACK)
        for j in range(num_rates):
            fill.touched[fill.rates[j]] = False
        for j in range(num_tasks):
            i = fill.tasks[j]
            if fill.new[i] < 0.0 and 1.0 / work.weight[i] <= cut:
                fill.new[i] = 1.0
                rising -= 1
                _touch(rates, fill, i)
        for j in range(num_rates):
            r = fill.rates[j]
            if fill.level[r] <= cut:
                fill.level[r] = np.inf
                e = rates.head[r]
                while e >= 0:
                    i = rates.owner[e]
                    if fill.new[i] < 0.0:
                        speed = best * work.weight[i]
                        fill.new[i] = speed if speed < 1.0 else 1.0
                        rising -= 1
                        _touch(rates, fill, i)
                    e = rates.after[e]
        if rising > 0:
            for j in range(num_rates):
                r = fill.rates[j]
                if fill.touched[r] and fill.level[r] < np.inf:
                    fill.level[r] = _level(work, rates, fill, r)


@njit(cache=True, error_model="numpy")
def _share(heap: Heap, work: Work, rates: Rates, fill: Fill, pools: Pools, now: float) -> None:
    """Solve every component that holds a dirty rate and move the events of tasks whose speed changed."""
    fill.epoch[0] += 1
    for d in range(rates.dirty_count[0]):
        seed = rates.dirty_list[d]
        rates.dirty[seed] = 0
        if fill.rate_mark[seed] == fill.epoch[0]:
            continue
        num_tasks, num_rates = _component(rates, fill, seed)
        _fill(work, rates, fill, num_tasks, num_rates)
        for j in range(num_tasks):
            i = fill.tasks[j]
            if fill.new[i] != work.speed[i]:
                _advance(work, i, now)
                work.speed[i] = fill.new[i]
                _schedule(heap, i, _next_event(work, pools, i, now))
    rates.dirty_count[0] = 0


@njit(cache=True, error_model="numpy")
def _begin(heap: Heap, work: Work, rates: Rates, pools: Pools, i: int, now: float) -> None:
    """Put task i on its rates and in the heap; `own` and `scale` are set."""
    work.left[i] = work.own[i]
    work.since[i] = now
    work.speed[i] = 1.0
    if work.scale[i] > 0.0:
        _attach(rates, work.scale[i], i)
    _schedule(heap, i, _next_event(work, pools, i, now))


@njit(cache=True, error_model="numpy")
def _touch_pool(pools: Pools, q: int) -> None:
    if pools.touched[q] == 0:
        pools.touched[q] = 1
        pools.touched_list[pools.touched_count[0]] = q
        pools.touched_count[0] += 1


@njit(cache=True, error_model="numpy")
def _enqueue(pools: Pools, i: int) -> None:
    """Insert task i in its pool's waiting list by (priority, row)."""
    q = pools.pool[i]
    before, j = -1, pools.wait_head[q]
    while j >= 0 and (pools.priority[j] > pools.priority[i] or (pools.priority[j] == pools.priority[i] and j < i)):
        before, j = j, pools.after[j]
    pools.after[i] = j
    if before < 0:
        pools.wait_head[q] = i
    else:
        pools.after[before] = i


@njit(cache=True, error_model="numpy")
def _leave_pool(pools: Pools, i: int) -> None:
    """Return the slots of running task i."""
    q = pools.pool[i]
    before, after = pools.before[i], pools.after[i]
    if before >= 0:
        pools.after[before] = after
    else:
        pools.run_head[q] = after
    if after >= 0:
        pools.before[after] = before
    else:
        pools.run_tail[q] = before
    pools.free[q] += pools.granted[i]
    if pools.waves[i] > 0 and pools.granted[i] < pools.want[i]:
        pools.under[q] -= 1
    if pools.flagged[i]:
        pools.flagged[i] = False
        pools.num_flagged[q] -= 1
    pools.granted[i] = 0


@njit(cache=True, error_model="numpy")
def _join_pool(work: Work, pools: Pools, i: int, slots: int) -> None:
    """Give task i slots: its own time follows the staircase, its demands follow its own time."""
    q = pools.pool[i]
    tail = pools.run_tail[q]
    pools.before[i] = tail
    pools.after[i] = -1
    if tail >= 0:
        pools.after[tail] = i
    else:
        pools.run_head[q] = i
    pools.run_tail[q] = i
    pools.free[q] -= slots
    pools.granted[i] = slots
    waves = pools.waves[i]
    if waves > 0 and slots < pools.want[i]:
        pools.under[q] += 1
    total = pools.size[i]
    if waves == 0:
        work.own[i] = work.alone[i] if slots == total else work.alone[i] * total / slots
        work.scale[i] = 1.0 / work.own[i]
    elif slots == total and pools.blocks[i] == waves * total:
        work.own[i] = work.alone[i]
        work.scale[i] = 1.0 / work.own[i]
    else:
        steps = (pools.blocks[i] + slots - 1) // slots
        work.own[i] = steps * (work.alone[i] / waves)
        work.scale[i] = (pools.blocks[i] / (waves * total)) / work.own[i]


@njit(cache=True, error_model="numpy")
def _waves_done(work: Work, pools: Pools, i: int, now: float) -> int:
    """Waves of the current grant that have ended at the next wave boundary (now, if task i is at one)."""
    done = work.own[i] - (work.left[i] - work.speed[i] * (now - work.since[i]))
    count = np.ceil(done / (work.alone[i] / pools.waves[i]) - WAVE_SLACK)
    return int64(count) if count > 0.0 else 0


@njit(cache=True, error_model="numpy")
def _shortfall(work: Work, pools: Pools, i: int, now: float) -> int:
    """Slots that running task i could still use from its next wave boundary on."""
    if pools.waves[i] == 0 or pools.granted[i] >= pools.want[i]:
        return 0
    rest = pools.blocks[i] - _waves_done(work, pools, i, now) * pools.granted[i]
    lack = min(int64(pools.want[i]), rest) - pools.granted[i]
    return lack if lack > 0 else 0


@njit(cache=True, error_model="numpy")
def _wanted(pools: Pools, i: int) -> int:
    """Slots that waiting task i asks for."""
    if pools.waves[i] > 0 and pools.blocks[i] < pools.want[i]:
        return pools.blocks[i]
    return int64(pools.want[i])


@njit(cache=True, error_model="numpy")
def _claims(work: Work, pools: Pools, i: int, waiting: bool, strict: bool, now: float) -> int:
    """Slots claimed in the pool of task i by tasks that go first: higher priority or, unless strict, launched earlier."""
    q = pools.pool[i]
    total = 0
    if pools.under[q] > 0:
        j = pools.run_head[q]
        while j >= 0:
            if pools.priority[j] > pools.priority[i] or (
                not strict and pools.priority[j] == pools.priority[i] and j < i
            ):
                total += _shortfall(work, pools, j, now)
            j = pools.after[j]
    if waiting:
        j = pools.wait_head[q]
        while j >= 0:
            if pools.priority[j] > pools.priority[i] or (
                not strict and pools.priority[j] == pools.priority[i] and j < i
            ):
                total += _wanted(pools, j)
            j = pools.after[j]
    return total


@njit(cache=True, error_model="numpy")
def _target(work: Work, pools: Pools, i: int, done: int, now: float) -> int:
    """Slots of running task i after its next wave boundary: it first serves higher priorities, then grows."""
    free = pools.free[pools.pool[i]]
    granted = int64(pools.granted[i])
    lack = _claims(work, pools, i, True, True, now) - free
    if lack > 0:
        slots = granted - lack
        return slots if slots >= pools.least[i] else 0
    if granted >= pools.want[i]:
        return granted
    spare = free - _claims(work, pools, i, True, False, now)
    limit = min(int64(pools.want[i]), pools.blocks[i] - done * granted)
    if spare <= 0 or limit <= granted:
        return granted
    return min(limit, granted + spare)


@njit(cache=True, error_model="numpy")
def _grant(heap: Heap, work: Work, rates: Rates, pools: Pools, now: float) -> None:
    """Grant slots in every pool that changed, then ask running kernels to change at their next wave boundary."""
    for d in range(pools.touched_count[0]):
        q = pools.touched_list[d]
        pools.touched[q] = 0
        while pools.wait_head[q] >= 0:
            i = pools.wait_head[q]
            wanted = _wanted(pools, i)
            slots = min(wanted, pools.free[q] - _claims(work, pools, i, False, False, now))
            if slots <= 0 or slots < min(int64(pools.least[i]), wanted):
                break
            pools.wait_head[q] = pools.after[i]
            _join_pool(work, pools, i, slots)
            if work.start[i] < 0.0:
                work.start[i] = now
                if now > work.since[i]:  # it was ready before and waited for slots
                    work.blame[i] = pools.freed_by[q]
            _begin(heap, work, rates, pools, i, now)
        if pools.wait_head[q] < 0 and pools.under[q] == 0 and pools.num_flagged[q] == 0:
            continue
        i = pools.run_head[q]
        while i >= 0:
            if pools.waves[i] > 0:
                done = _waves_done(work, pools, i, now)
                ask = pools.blocks[i] > done * pools.granted[i] and _target(work, pools, i, done, now) != pools.granted[i]
                if ask != pools.flagged[i]:
                    pools.flagged[i] = ask
                    pools.num_flagged[q] += 1 if ask else -1
                    pools.boundary[i] = done
                    _advance(work, i, now)
                    _schedule(heap, i, _next_event(work, pools, i, now))
            i = pools.after[i]
    pools.touched_count[0] = 0


@njit(cache=True, error_model="numpy")
def _at_boundary(heap: Heap, work: Work, rates: Rates, pools: Pools, i: int, now: float) -> None:
    """Task i reached the wave boundary it was asked to stop at: give up or take slots, or go back to waiting."""
    q = pools.pool[i]
    _advance(work, i, now)
    done = pools.boundary[i]
    slots = _target(work, pools, i, done, now)
    if slots == pools.granted[i]:
        pools.flagged[i] = False
        pools.num_flagged[q] -= 1
        _schedule(heap, i, _next_event(work, pools, i, now))
        return
    pools.blocks[i] -= done * pools.granted[i]
    _detach(rates, i)
    _leave_pool(pools, i)
    pools.freed_by[q] = i
    _touch_pool(pools, q)
    if slots == 0:
        work.since[i] = now
        _enqueue(pools, i)
    else:
        _join_pool(work, pools, i, slots)
        _begin(heap, work, rates, pools, i, now)


@njit(cache=True, error_model="numpy")
def _release(heap: Heap, work: Work, rates: Rates, pools: Pools, i: int, by: int, now: float) -> None:
    """Task i has become ready, last of all by the end of task `by`."""
    work.blame[i] = by
    if pools.pool[i] >= 0:
        work.since[i] = now
        _enqueue(pools, i)
        _touch_pool(pools, pools.pool[i])
        return
    work.start[i] = now
    work.own[i] = work.alone[i]
    work.scale[i] = 1.0 / work.alone[i] if work.alone[i] > 0.0 else 0.0
    _begin(heap, work, rates, pools, i, now)


@njit(cache=True, error_model="numpy")
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


@njit(
    types.Tuple((_F, _F, _I, int64))(
        _F, _F, _L, _I, _L, _I, _L, _I, _F, _I, _I, _I, _I, _I, _F, _I
    ),
    cache=True,
    error_model="numpy",
)
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
    n, num_rates, num_pools, nnz = len(alone), len(capacity), len(pool_slots), len(rate_idx)
    succ_ptr, succ_idx, pending = _links(n, len(priority), stream_ptr, stream_idx, dep_ptr, dep_idx)
    owner = np.empty(nnz, np.int32)
    for i in range(n):
        for e in range(rate_ptr[i], rate_ptr[i + 1]):
            owner[e] = i
    heap = Heap(np.empty(n), np.empty(n, np.int32), np.full(n, -1, np.int32), np.zeros(1, np.int64))
    work = Work(
        alone,
        weight,
        np.zeros(n),
        np.zeros(n),
        np.zeros(n),
        np.zeros(n),
        np.zeros(n),
        np.full(n, -1.0),
        np.full(n, -1.0),
        np.full(n, -1, np.int32),
    )
    rates = Rates(
        rate_ptr,
        rate_idx,
        rate_work,
        owner,
        np.zeros(nnz),
        np.empty(nnz, np.int32),
        np.empty(nnz, np.int32),
        capacity,
        capacity * (1.0 + CAPACITY_SLACK),
        np.zeros(num_rates),
        np.zeros(num_rates, np.int32),
        np.full(num_rates, -1, np.int32),
        np.full(num_rates, -1, np.int32),
        np.zeros(num_rates, np.int8),
        np.empty(num_rates, np.int32),
        np.zeros(1, np.int64),
    )
    fill = Fill(
        np.zeros(n, np.int64),
        np.zeros(num_rates, np.int64),
        np.zeros(1, np.int64),
        np.empty(n, np.int32),
        np.empty(num_rates, np.int32),
        np.zeros(n),
        np.zeros(num_rates),
        np.zeros(num_rates, np.bool_),
    )
    p = n if num_pools > 0 else 0
    pool = np.full(n, -1, np.int32)
    want = np.zeros(p, np.int32)
    least = np.zeros(p, np.int32)
    blocks = np.zeros(p, np.int64)
    rank = np.zeros(p, np.int32)
    for i in range(p):
        if slot_pool[i] < 0 or slots[i] <= 0 or alone[i] <= 0.0:
            continue
        pool[i] = slot_pool[i]
        want[i] = min(slots[i], pool_slots[slot_pool[i]])
        least[i] = max(min_slots[i], 1)
        blocks[i] = int64(waves[i]) * slots[i]
        for e in range(stream_ptr[i], stream_ptr[i + 1]):
            if e == stream_ptr[i] or priority[stream_idx[e]] > rank[i]:
                rank[i] = priority[stream_idx[e]]
    pools = Pools(
        pool,
        want,
        least,
        waves,
        rank,
        slots,
        pool_slots.astype(np.int64),
        np.zeros(p, np.int32),
        blocks,
        np.zeros(p, np.bool_) if p > 0 else np.zeros(n, np.bool_),
        np.zeros(p, np.int64),
        np.full(num_pools, -1, np.int32),
        np.full(num_pools, -1, np.int32),
        np.full(num_pools, -1, np.int32),
        np.empty(p, np.int32),
        np.empty(p, np.int32),
        np.zeros(num_pools, np.int32),
        np.zeros(num_pools, np.int32),
        np.zeros(num_pools, np.int8),
        np.empty(num_pools, np.int32),
        np.zeros(1, np.int64),
        np.full(num_pools, -1, np.int32),
    )
    now = 0.0
    status = OK
    for i in range(n):
        if pending[i] == 0:
            _release(heap, work, rates, pools, i, -1, now)
    if pools.touched_count[0] > 0:
        _grant(heap, work, rates, pools, now)
    while heap.size[0] > 0:
        if heap.key[0] > now:
            if rates.dirty_count[0] > 0:
                _share(heap, work, rates, fill, pools, now)
            now = heap.key[0]
            if now == np.inf:
                status = STARVED
                break
        i = _pop(heap)
        if pools.flagged[i]:
            _at_boundary(heap, work, rates, pools, i, now)
        else:
            work.end[i] = now
            if work.scale[i] > 0.0:
                _detach(rates, i)
            if pool[i] >= 0:
                _leave_pool(pools, i)
                pools.freed_by[pool[i]] = i
                _touch_pool(pools, pool[i])
            for e in range(succ_ptr[i], succ_ptr[i + 1]):
                j = succ_idx[e]
                pending[j] -= 1
                if pending[j] == 0:
                    _release(heap, work, rates, pools, j, i, now)
        if pools.touched_count[0] > 0 and (heap.size[0] == 0 or heap.key[0] > now):
            _grant(heap, work, rates, pools, now)
    if status == OK:
        for i in range(n):
            if work.end[i] < 0.0:
                status = DEADLOCK
                break
    return work.start, work.end, work.blame, status
