"""Exact search: take candidates of all clusters in the order of their bounds, simulate, stop when none can be better.

With one objective plans are ordered by its value, then by step time. With several, a candidate needs no simulation once
a simulated plan that keeps all limits is at least as good as its bounds in every objective: the plans that remain are
the Pareto front. Whatever could rule a candidate out has bounds no greater than the candidate's, so that taking
candidates in the order of their bounds simulates as few of them as these bounds allow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from windtunnel.errors import BadInput
from windtunnel.planner.balance import Balance
from windtunnel.planner.concrete import Concrete
from windtunnel.planner.objectives import Figures, Floor, Goals, Setting
from windtunnel.planner.screen import Bounds, Case, Screener
from windtunnel.planner.space import Candidates
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.training.simulate import memory_of, power_of, prepare, run

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Report = Callable[[int, float, float], None]
"""Called with plans simulated, the best value so far and the best that is still possible."""
MEMORY = "memory"
"""Name of the limit that every search has: the memory of devices and hosts."""


def bounded(screener: Screener, x: Candidates, goals: Goals) -> Bounds:
    """Bounds of all that the goals look at: time and memory, and energy where one of them needs it."""
    bounds = screener.bounds(x)
    if any(m.uses_work for m in goals.metrics):
        bounds = replace(bounds, work_j=screener.work_j(x, bounds))
    return bounds


@dataclass(frozen=True)
class Branch:
    """One cluster and precision: its candidates and their bounds."""

    case: Case
    setting: Setting
    candidates: Candidates
    bounds: Bounds
    scenario: Scenario
    """With this cluster and precision; the plan is what all candidates share."""
    screener: Screener
    """What the bounds came from, with the blocks that it priced."""
    concrete: dict[float, Concrete] = field(default_factory=dict)
    """Bytes of a device that may be reserved → what open candidates become within them."""

    def plan(self, layout: int, policy: int, goals: Goals) -> PlanSpec:
        """The plan of one candidate, its layers split and its recomputation chosen."""
        if not self.candidates.policies[policy].is_open:
            return self.candidates.plan(layout, policy)
        room = goals.room_bytes(self.setting)
        if room not in self.concrete:
            self.concrete[room] = Concrete(Balance(self.case, self.candidates, room))
        return self.concrete[room].plan(layout, policy)

    def floor(self, cells: Ints) -> Floor:
        """Bounds of some cells of the grid, by flat index."""
        work = self.bounds.work_j
        joules = 0.0 if work is None else work.reshape(-1)[cells]
        return Floor(self.bounds.time_s.reshape(-1)[cells], self.bounds.memory_bytes.reshape(-1)[cells], joules)


@dataclass(frozen=True, slots=True)
class Evaluated:
    """One simulated candidate."""

    branch: int
    layout: int
    policy: int
    plan: PlanSpec
    bound_s: float
    step_time_s: float
    reserved_bytes: float | None
    """None where other figures alone ruled it out."""
    fits: bool | None
    """Whether it keeps to the memory of device and host."""
    values: dict[str, float]
    """Objectives and limited metrics."""
    missed: tuple[str, ...]
    """Limits that it breaks, as far as they were looked at."""
    key: tuple[float, ...]
    """Objectives with less being better, then step time."""

    @property
    def feasible(self) -> bool:
        """Whether it keeps to every limit."""
        return bool(self.fits) and not self.missed


@dataclass(frozen=True, slots=True)
class Proof:
    """Why no candidate beats the best: every one was pruned by a limit or a bound, or simulated."""

    candidates: int
    pruned_by_memory: int
    pruned_by_limit: dict[str, int]
    """Limit → candidates whose bound breaks it."""
    pruned_by_bound: int
    """The bounds are no better than a simulated plan."""
    simulated: int
    refused: int
    """The simulator's own rules refused them."""
    open: int
    """Neither ruled out nor simulated; none when `complete`."""
    objective: str
    """What `best` and `next_bound` are values of: the first objective."""
    best: float
    next_bound: float
    """Best that a plan which was not simulated could be."""
    best_s: float
    """Step time of the best plan."""
    complete: bool

    @property
    def gap(self) -> float:
        """How much better than the best an open plan could still be, as a share."""
        if not self.open:
            return 0.0
        return abs(self.next_bound - self.best) / abs(self.best) if np.isfinite(self.best) and self.best else 1.0


@dataclass(slots=True)
class Found:
    """What a search has found so far."""

    best: Evaluated | None = None
    front: list[Evaluated] = field(default_factory=list)
    """Feasible plans that no other beats in all objectives; the best alone where there is one objective."""
    evaluated: list[Evaluated] = field(default_factory=list)
    refused: list[tuple[int, PlanSpec, str]] = field(default_factory=list)

    def rules_out(self, key: tuple[float, ...]) -> bool:
        """Whether a plan that is at best `key` need not be simulated."""
        if self.best is None:
            return False
        if len(key) == 2:
            return key >= self.best.key
        return any(all(a <= b for a, b in zip(e.key[:-1], key[:-1], strict=True)) for e in self.front)

    def take(self, entry: Evaluated) -> None:
        """Note a feasible plan."""
        if self.rules_out(entry.key):
            return
        if len(entry.key) == 2:
            self.front = [entry]
        else:
            worse = [all(a <= b for a, b in zip(entry.key[:-1], e.key[:-1], strict=True)) for e in self.front]
            self.front = [e for e, out in zip(self.front, worse, strict=True) if not out] + [entry]
        self.best = min(self.front, key=lambda e: e.key)


@dataclass(slots=True)
class _Queue:
    """Candidates that only a simulation or a found plan can rule out, in the order of their bounds."""

    keys: Floats
    """(n, objectives + 1), rising."""
    branch: Ints
    cell: Ints
    alive: Mask
    single: bool

    @classmethod
    def of(cls, branches: Sequence[Branch], kept: list[Ints], goals: Goals) -> _Queue:
        columns: list[list[Floats]] = [[] for _ in range(len(goals.objectives) + 1)]
        for branch, cells in zip(branches, kept, strict=True):
            floor = branch.floor(cells)
            for column, metric in zip(columns, goals.objectives, strict=False):
                column.append(metric.signed(metric.bound(branch.setting, floor)))
            columns[-1].append(floor.time_s)
        joined = [np.concatenate(c) if c else np.zeros(0) for c in columns]
        single = len(goals.objectives) == 1
        by_time = single and goals.objectives[0].name == "step_time"
        order = np.argsort(joined[-1], kind="stable") if by_time else np.lexsort(joined[::-1])
        which = np.repeat(np.arange(len(kept)), [len(c) for c in kept])
        cells = np.concatenate(kept) if kept else np.zeros(0, np.int64)
        keys = np.stack([c[order] for c in joined], axis=1)
        return cls(keys, which[order], cells[order], np.ones(len(order), np.bool_), single)

    def next(self, at: int) -> int:
        """First candidate from `at` on that nothing rules out."""
        if self.single:
            return at
        left = np.flatnonzero(self.alive[at:])
        return at + int(left[0]) if len(left) else len(self.alive)

    def drop(self, entry: Evaluated, at: int) -> None:
        """Rule out what cannot beat a feasible plan, from `at` on."""
        if self.single:
            first, second = entry.key
            a, t = self.keys[at:, 0], self.keys[at:, 1]
            self.alive[at:] &= (a < first) | ((a == first) & (t < second))
        else:
            self.alive[at:] &= (self.keys[at:, :-1] < np.array(entry.key[:-1])).any(axis=1)


def search(
    branches: Sequence[Branch], goals: Goals, *, report: Report | None = None, most: int | None = None,
    known: Mapping[tuple[int, int], Evaluated] | None = None,
) -> tuple[Found, Proof]:  # fmt: skip
    """The plans that are best at something and keep to the limits, with the proof.

    Args:
        branches: clusters and precisions with their candidates.
        goals: objectives and limits.
        report: see `Report`.
        most: simulate no more plans than this.
        known: (branch, flat cell) → what an earlier search under these objectives and limits said of it.

    Ctrl-C ends the search with what it has; the proof then says how far it got.
    """
    found = Found()
    kept, by_memory, by_limit, refused = _within_limits(branches, goals)
    queue = _Queue.of(branches, kept, goals)
    metric = goals.objectives[0]
    at, complete = queue.next(0), True
    try:
        while at < len(queue.cell):
            bound = tuple(queue.keys[at].tolist())
            if found.rules_out(bound):  # with one objective nothing later is better either
                break
            if most is not None and len(found.evaluated) >= most:
                complete = False
                break
            which, cell = int(queue.branch[at]), int(queue.cell[at])
            entry = known.get((which, cell)) if known else None
            if entry is None or (entry.fits is None and not entry.missed and not found.rules_out(entry.key)):
                entry = evaluate(branches, goals, found, which, cell)
            at += 1
            if entry is not None:
                found.evaluated.append(entry)
                if entry.feasible and not found.rules_out(entry.key):
                    found.take(entry)
                    queue.drop(entry, at)
                if report:
                    best = metric.signed(found.best.key[0]) if found.best else float("nan")
                    report(len(found.evaluated), best, metric.signed(bound[0]))
            at = queue.next(at)
    except KeyboardInterrupt:
        complete = False
    left = queue.alive[at:]
    still_open = 0 if complete else int(left.sum())
    complete = not still_open
    ahead = queue.keys[at:, 0][left] if still_open else queue.keys[at:, 0]
    next_bound = float(metric.signed(ahead[0])) if len(ahead) else float(metric.signed(np.inf))
    simulated, count = len(found.evaluated), sum(b.candidates.count for b in branches)
    refused += len(found.refused)
    by_bound = count - by_memory - sum(by_limit.values()) - simulated - refused - still_open
    best_value = float(metric.signed(found.best.key[0])) if found.best else float(metric.signed(np.inf))
    proof = Proof(
        count, by_memory, by_limit, by_bound, simulated, refused, still_open, metric.name, best_value, next_bound,
        found.best.step_time_s if found.best else float("inf"), complete,
    )  # fmt: skip
    return found, proof


def _within_limits(branches: Sequence[Branch], goals: Goals) -> tuple[list[Ints], int, dict[str, int], int]:
    """Candidates (flat cells) that no limit rules out by its bound, and how many each did; how many were refused."""
    kept, by_memory, refused = [], 0, 0
    by_limit = {limit.metric.name: 0 for limit in goals.limits}
    for branch in branches:
        x, bounds = branch.candidates, branch.bounds
        known = x.legal & np.isfinite(bounds.memory_bytes)
        able = known & (bounds.memory_bytes <= branch.setting.memory_bytes * goals.memory_fraction)
        priced = able & np.isfinite(bounds.time_s)
        by_memory += int(known.sum()) - int(able.sum())
        refused += x.count - int(known.sum()) + int(able.sum()) - int(priced.sum())  # before there was a bound
        cells = np.flatnonzero(priced)
        for limit in goals.limits:
            ok = np.asarray(limit.met(limit.metric.bound(branch.setting, branch.floor(cells))))
            by_limit[limit.metric.name] += len(cells) - int(ok.sum())
            cells = cells[ok]
        kept.append(cells)
    return kept, by_memory, by_limit, refused


def evaluate(branches: Sequence[Branch], goals: Goals, found: Found, which: int, cell: int) -> Evaluated | None:
    """One simulation; memory only where nothing else has ruled the plan out. None where the simulator refuses it."""
    branch = branches[which]
    case, x = branch.case, branch.candidates
    layout, policy = divmod(cell, x.legal.shape[1])
    plan = branch.plan(layout, policy, goals)
    try:
        step = prepare(case.model, case.cluster, case.training, plan, case.techniques, known=case.known)
    except BadInput as error:
        found.refused.append((which, plan, str(error)))
        return None
    timeline = run(step)
    seconds = timeline.makespan_s
    figures = Figures(branch.setting, seconds, power_of(step, seconds))
    fits: bool | None = None
    if not goals.missed(goals.values(figures)) and not found.rules_out(goals.key(figures)):
        memory = memory_of(step, timeline)
        figures = Figures(branch.setting, seconds, figures.mean_power_w, memory.peak_reserved_bytes)
        capacity = branch.setting.memory_bytes * goals.memory_fraction
        fits = memory.peak_reserved_bytes <= capacity and memory.host_bytes <= memory.host_capacity_bytes
    values = goals.values(figures)
    reserved = None if fits is None else figures.reserved_bytes
    return Evaluated(
        which, layout, policy, plan, float(branch.bounds.time_s[layout, policy]), seconds, reserved, fits, values,
        goals.missed(values), goals.key(figures),
    )  # fmt: skip
