"""The engine in plain Python: what `kernels.py` does, written to be read. Same arithmetic, same order, same bits.

Every container here is ordered on purpose: members of a rate and runners of a pool stand in order of arrival,
waiters by (priority, row), events by (time, row). Sums follow those orders.
"""

from __future__ import annotations

import heapq
import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats, Int32s

CAPACITY_SLACK = 1e-9
LEVEL_SLACK = 1e-12
WAVE_SLACK = 1e-9
OK, DEADLOCK, STARVED = 0, 1, 2

_Array = npt.NDArray[np.generic]


class _Rate:
    """A shared rate: its capacity, what running tasks ask of it at full speed, and who they are with their demands."""

    def __init__(self, capacity: float) -> None:
        self.capacity = capacity
        self.limit = capacity * (1.0 + CAPACITY_SLACK)
        self.load = 0.0
        self.members: dict[tuple[int, int], float] = {}

    @property
    def overloaded(self) -> bool:
        return self.load > self.limit


class _Task:
    """One task: what the table says and where it stands."""

    def __init__(self, row: int, alone: float, weight: float, entries: list[tuple[int, float]]) -> None:
        self.row, self.alone, self.weight, self.entries = row, alone, weight, entries
        self.own = self.left = self.since = self.speed = self.scale = 0.0
        self.start = self.end = -1.0
        self.blame = -1
        self.pending = 0
        self.successors: list[int] = []
        self.pool = -1
        self.total = self.want = self.least = self.waves = self.priority = self.granted = self.blocks = 0
        self.boundary: int | None = None
        self.event = math.inf
        """Time of the next event while running."""

    def before(self, other: _Task) -> bool:
        """Whether this task is served first: by priority, then launch order."""
        return self.priority > other.priority or (self.priority == other.priority and self.row < other.row)


class _Pool:
    def __init__(self, slots: int) -> None:
        self.free = slots
        self.running: dict[int, _Task] = {}
        self.waiting: list[_Task] = []
        self.freed_by = -1


class _Simulation:
    def __init__(self, tasks: list[_Task], rates: list[_Rate], pools: list[_Pool]) -> None:
        self.tasks, self.rates, self.pools = tasks, rates, pools
        self.now = 0.0
        self.events: list[tuple[float, int]] = []
        self.dirty: dict[int, None] = {}
        self.touched: dict[int, None] = {}

    # Time ------------------------------------------------------------------------------------------------------------

    def schedule(self, task: _Task) -> None:
        """File the next event of a running task: its end, or the wave boundary it is asked to stop at."""
        if task.speed <= 0.0:
            task.event = math.inf
        elif task.boundary is not None:
            ahead = task.boundary * (task.alone / task.waves) - (task.own - task.left)
            task.event = self.now if ahead <= 0.0 else self.now + ahead / task.speed
        else:
            task.event = self.now + task.left / task.speed
        heapq.heappush(self.events, (task.event, task.row))

    def next_event(self) -> tuple[float, int] | None:
        """The earliest event that still holds; entries of tasks that moved or ended are dropped."""
        while self.events:
            time, row = self.events[0]
            task = self.tasks[row]
            if task.end < 0.0 and task.speed >= 0.0 and task.event == time:
                return time, row
            heapq.heappop(self.events)
        return None

    def advance(self, task: _Task) -> None:
        left = task.left - task.speed * (self.now - task.since)
        task.left = left if left > 0.0 else 0.0
        task.since = self.now

    # Rates -----------------------------------------------------------------------------------------------------------

    def attach(self, task: _Task) -> None:
        for e, (r, work) in enumerate(task.entries):
            demand = work * task.scale
            if demand > 0.0:
                rate = self.rates[r]
                rate.members[task.row, e] = demand
                rate.load += demand
                if rate.overloaded:
                    self.dirty[r] = None

    def detach(self, task: _Task) -> None:
        for e, (r, _) in enumerate(task.entries):
            rate = self.rates[r]
            if (task.row, e) in rate.members:
                if rate.overloaded:
                    self.dirty[r] = None
                demand = rate.members.pop((task.row, e))
                rate.load = rate.load - demand if rate.members else 0.0

    def component(self, seed: int) -> tuple[list[int], list[int]]:
        """Tasks and rates joined to a rate through overloaded rates, in breadth-first order."""
        rates, tasks = [seed], []
        seen_rates, seen_tasks = {seed}, set()
        for r in rates:
            for row, _ in self.rates[r].members:
                if row in seen_tasks:
                    continue
                seen_tasks.add(row)
                tasks.append(row)
                for e, (other, _) in enumerate(self.tasks[row].entries):
                    rate = self.rates[other]
                    if other not in seen_rates and (row, e) in rate.members and rate.overloaded:
                        seen_rates.add(other)
                        rates.append(other)
        return tasks, rates

    def fill(self, tasks: list[int], rates: list[int]) -> dict[int, float]:
        """Weighted max-min speeds of one component: raise one level, freeze who saturates, repeat."""
        speed: dict[int, float] = {}

        def level(r: int) -> float:
            rest, slope = self.rates[r].capacity, 0.0
            for (row, _), demand in self.rates[r].members.items():
                if row in speed:
                    rest -= demand * speed[row]
                else:
                    slope += demand * self.tasks[row].weight
            if slope <= 0.0:
                return math.inf
            return rest / slope if rest > 0.0 else 0.0

        levels = {r: level(r) if self.rates[r].overloaded else math.inf for r in rates}
        while len(speed) < len(tasks):
            best = min(levels.values())
            if best == math.inf:
                speed.update({row: 1.0 for row in tasks if row not in speed})
                break
            rising = [row for row in tasks if row not in speed]
            best = min([best] + [1.0 / self.tasks[row].weight for row in rising])
            cut = best * (1.0 + LEVEL_SLACK)
            frozen = [row for row in rising if 1.0 / self.tasks[row].weight <= cut]
            speed.update({row: 1.0 for row in frozen})
            for r in rates:
                if levels[r] <= cut:
                    levels[r] = math.inf
                    for row, _ in self.rates[r].members:
                        if row not in speed:
                            speed[row] = min(best * self.tasks[row].weight, 1.0)
                            frozen.append(row)
            for r in {r for row in frozen for r, _ in self.tasks[row].entries}:
                if levels.get(r, math.inf) < math.inf:
                    levels[r] = level(r)
        return speed

    def share(self) -> None:
        """Bring speeds up to date wherever a rate that is or was overloaded changed hands."""
        solved: set[int] = set()
        for seed in self.dirty:
            if seed in solved:
                continue
            tasks, rates = self.component(seed)
            solved.update(rates)
            speed = self.fill(tasks, rates)
            for row in tasks:
                task = self.tasks[row]
                if speed[row] != task.speed:
                    self.advance(task)
                    task.speed = speed[row]
                    self.schedule(task)
        self.dirty.clear()

    # Slots -----------------------------------------------------------------------------------------------------------

    def waves_done(self, task: _Task) -> int:
        done = task.own - (task.left - task.speed * (self.now - task.since))
        return max(math.ceil(done / (task.alone / task.waves) - WAVE_SLACK), 0)

    def shortfall(self, task: _Task) -> int:
        if task.waves == 0 or task.granted >= task.want:
            return 0
        rest = task.blocks - self.waves_done(task) * task.granted
        return max(min(task.want, rest) - task.granted, 0)

    @staticmethod
    def wanted(task: _Task) -> int:
        return min(task.want, task.blocks) if task.waves > 0 else task.want

    def claims(self, task: _Task, *, waiting: bool, strict: bool) -> int:
        pool = self.pools[task.pool]
        total = 0
        for other in pool.running.values():
            if other.priority > task.priority if strict else other.before(task):
                total += self.shortfall(other)
        if waiting:
            for other in pool.waiting:
                if other.priority > task.priority if strict else other.before(task):
                    total += self.wanted(other)
        return total

    def target(self, task: _Task, done: int) -> int:
        """Slots of a running kernel after its next wave boundary."""
        free = self.pools[task.pool].free
        lack = self.claims(task, waiting=True, strict=True) - free
        if lack > 0:
            return task.granted - lack if task.granted - lack >= task.least else 0
        spare = free - self.claims(task, waiting=True, strict=False)
        limit = min(task.want, task.blocks - done * task.granted)
        if task.granted >= task.want or spare <= 0 or limit <= task.granted:
            return task.granted
        return min(limit, task.granted + spare)

    def join(self, task: _Task, slots: int) -> None:
        pool = self.pools[task.pool]
        pool.running[task.row] = task
        pool.free -= slots
        task.granted = slots
        if task.waves == 0:
            task.own = task.alone if slots == task.total else task.alone * task.total / slots
            task.scale = 1.0 / task.own
        elif slots == task.total and task.blocks == task.waves * task.total:
            task.own = task.alone
            task.scale = 1.0 / task.own
        else:
            task.own = -(-task.blocks // slots) * (task.alone / task.waves)
            task.scale = (task.blocks / (task.waves * task.total)) / task.own
        self.begin(task)

    def leave(self, task: _Task) -> None:
        pool = self.pools[task.pool]
        del pool.running[task.row]
        pool.free += task.granted
        pool.freed_by = task.row
        task.granted = 0
        task.boundary = None
        self.touched[task.pool] = None

    def wait(self, task: _Task) -> None:
        task.since = self.now
        task.event = math.inf
        self.pools[task.pool].waiting.append(task)
        self.pools[task.pool].waiting.sort(key=lambda t: (-t.priority, t.row))
        self.touched[task.pool] = None

    def grant(self) -> None:
        """Serve the waiters of pools that changed, then ask running kernels to change at their next wave boundary."""
        for q in self.touched:
            pool = self.pools[q]
            while pool.waiting:
                task = pool.waiting[0]
                wanted = self.wanted(task)
                slots = min(wanted, pool.free - self.claims(task, waiting=False, strict=False))
                if slots <= 0 or slots < min(task.least, wanted):
                    break
                pool.waiting.pop(0)
                if task.start < 0.0:
                    task.start = self.now
                    if self.now > task.since:
                        task.blame = pool.freed_by
                self.join(task, slots)
            for task in pool.running.values():
                if task.waves == 0:
                    continue
                done = self.waves_done(task)
                ask = task.blocks > done * task.granted and self.target(task, done) != task.granted
                if ask != (task.boundary is not None):
                    task.boundary = done if ask else None
                    self.advance(task)
                    self.schedule(task)
        self.touched.clear()

    def at_boundary(self, task: _Task, done: int) -> None:
        self.advance(task)
        slots = self.target(task, done)
        if slots == task.granted:
            task.boundary = None
            self.schedule(task)
            return
        task.blocks -= done * task.granted
        self.detach(task)
        self.leave(task)
        if slots == 0:
            self.wait(task)
        else:
            self.join(task, slots)

    # Tasks -----------------------------------------------------------------------------------------------------------

    def begin(self, task: _Task) -> None:
        task.left, task.since, task.speed = task.own, self.now, 1.0
        self.attach(task)
        self.schedule(task)

    def release(self, task: _Task, by: int) -> None:
        task.blame = by
        if task.pool >= 0:
            self.wait(task)
            return
        task.start = self.now
        task.own = task.alone
        task.scale = 1.0 / task.alone if task.alone > 0.0 else 0.0
        self.begin(task)

    def finish(self, task: _Task) -> None:
        task.end = self.now
        self.detach(task)
        if task.pool >= 0:
            self.leave(task)
        for row in task.successors:
            other = self.tasks[row]
            other.pending -= 1
            if other.pending == 0:
                self.release(other, task.row)

    def run(self) -> int:
        for task in self.tasks:
            if task.pending == 0:
                self.release(task, -1)
        self.grant()
        while (event := self.next_event()) is not None:
            if event[0] > self.now:
                self.share()
                event = self.next_event()
                assert event is not None  # sharing moves events, it ends none
                self.now = event[0]
                if self.now == math.inf:
                    return STARVED
            heapq.heappop(self.events)
            task = self.tasks[event[1]]
            if task.boundary is not None:
                self.at_boundary(task, task.boundary)
            else:
                self.finish(task)
            event = self.next_event()
            if event is None or event[0] > self.now:
                self.grant()
        return DEADLOCK if any(task.end < 0.0 for task in self.tasks) else OK


class _Program(NamedTuple):
    """Columns of a program, in the order in which the kernel takes them."""

    alone: _Array
    weight: _Array
    stream_ptr: _Array
    stream_idx: _Array
    dep_ptr: _Array
    dep_idx: _Array
    rate_ptr: _Array
    rate_idx: _Array
    rate_work: _Array
    slot_pool: _Array
    slots: _Array
    min_slots: _Array
    waves: _Array
    priority: _Array
    capacity: _Array
    pool_slots: _Array


def run(*columns: _Array) -> tuple[Floats, Floats, Int32s, int]:
    """Simulate a program: the plain twin of `kernels.run`, with the same columns and the same bits.

    Returns:
        Start and end of each task in seconds (−1 where never reached), the task that released it, and a status code.
    """
    program = _Program(*columns)
    tasks = []
    sizes, levels = program.pool_slots.tolist(), program.priority.tolist()
    last: dict[int, int] = {}
    for i in range(len(program.alone)):
        entries = slice(int(program.rate_ptr[i]), int(program.rate_ptr[i + 1]))
        pairs = list(zip(program.rate_idx[entries].tolist(), program.rate_work[entries].tolist(), strict=True))
        task = _Task(i, float(program.alone[i]), float(program.weight[i]), pairs)
        tasks.append(task)
        if sizes and program.slot_pool[i] >= 0 and program.slots[i] > 0 and task.alone > 0.0:
            task.pool, task.total, task.waves = int(program.slot_pool[i]), int(program.slots[i]), int(program.waves[i])
            task.want = min(task.total, sizes[task.pool])
            task.least = max(int(program.min_slots[i]), 1)
            task.blocks = task.waves * task.total
            mine = program.stream_idx[int(program.stream_ptr[i]) : int(program.stream_ptr[i + 1])].tolist()
            task.priority = max((levels[s] for s in mine), default=0)
    for i, task in enumerate(tasks):
        before = program.dep_idx[int(program.dep_ptr[i]) : int(program.dep_ptr[i + 1])].tolist()
        for stream in program.stream_idx[int(program.stream_ptr[i]) : int(program.stream_ptr[i + 1])].tolist():
            if last.get(stream, i) != i:
                before.append(last[stream])
            last[stream] = i
        for j in before:
            tasks[j].successors.append(i)
        task.pending = len(before)
    simulation = _Simulation(tasks, [_Rate(c) for c in program.capacity.tolist()], [_Pool(q) for q in sizes])
    status = simulation.run()
    return (
        np.array([task.start for task in tasks], np.float64),
        np.array([task.end for task in tasks], np.float64),
        np.array([task.blame for task in tasks], np.int32),
        status,
    )
