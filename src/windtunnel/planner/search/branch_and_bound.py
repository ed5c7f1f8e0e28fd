"""Exact search: take candidates of all clusters in the order of their bounds, simulate, stop when none can be better.

With one objective plans are ordered by its value, then by step time. With several, a candidate needs no simulation once
a simulated plan that keeps all limits is at least as good as its bounds in every objective: the plans that remain are
the Pareto front. Whatever could rule a candidate out has bounds no greater than the candidate's, so that taking
candidates in the order of their bounds simulates as few of them as these bounds allow.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from windtunnel.arrays import Floats, Ints, Mask
from windtunnel.errors import BadInput
from windtunnel.planner.bounds.forked_screen import frozen_gc
from windtunnel.planner.bounds.open_candidates import OpenCandidates
from windtunnel.planner.bounds.quick_floor import Part, QuickFloor, comes_in_parts
from windtunnel.planner.bounds.screen import Bounds, Screener
from windtunnel.planner.case import Case
from windtunnel.planner.deadline import Deadline
from windtunnel.planner.objectives import Figures, Goals, LowerBounds, Setting
from windtunnel.planner.search.close_open_plan import ClosedPlans
from windtunnel.planner.search.equivalent_plans import program_key
from windtunnel.planner.space.candidates import Candidates
from windtunnel.planner.whole_run import WholeRun
from windtunnel.program.tables import Timeline
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.training.prepare_step import prepare
from windtunnel.training.simulate_step import memory_of, run
from windtunnel.training.step_figures.power import power_of
from windtunnel.training.step_setup import PreparedStep

Report = Callable[[int, int, float, float], None]
"""Called with plans screened and simulated, the best value so far (not a number before there is one) and the best that
is still possible."""
FIRST_PARTS = 12
"""Parts of a large space that get bounds before plans are simulated. From then on bounds and simulations take turns, so
that each has about half of the time."""
MEMORY = "memory"
"""Name of the limit that every search has: the memory of devices and hosts."""


class Screening:
    """Bounds of one cluster's candidates, computed when somebody asks for them."""

    def __init__(self, screener: Screener, x: Candidates, goals: Goals) -> None:
        self._ask = screener, x, goals
        self._bounds: Bounds | None = None
        self._parts: list[Part] | None = None
        self.refined: Mask | None = None
        """Layouts (N,) whose bounds are more than the quick ones of a large space; None: all of them."""
        self.took_s = 0.0
        """Seconds that the bounds took."""

    def known(self, bounds: Bounds) -> Screening:
        """The same with bounds that somebody has computed."""
        out = Screening(*self._ask)
        out._bounds = bounds
        return out

    @property
    def done(self) -> bool:
        """Whether the bounds have been computed."""
        return self._bounds is not None

    @property
    def bounds(self) -> Bounds:
        """Bounds of all candidates."""
        if self._bounds is None:
            begun = time.perf_counter()
            self._bounds = self._quick() if self.in_parts else bounded(*self._ask)
            self.took_s = time.perf_counter() - begun
        return self._bounds

    @property
    def number_done(self) -> int:
        """Candidates that have bounds of their own."""
        if not self.done:
            return 0
        legal = self._ask[1].legal
        return int(legal.sum() if self.refined is None else legal[self.refined].sum())

    @property
    def in_parts(self) -> bool:
        """Whether layouts get their bounds in parts, the likeliest first."""
        screener, x, goals = self._ask
        single = len(goals.objectives) == 1 and not any(m.uses_work for m in goals.metrics)
        return single and comes_in_parts(screener.case, x)

    def _quick(self) -> Bounds:
        """Bounds without block costs; the parts that have no others yet."""
        screener, x, _ = self._ask
        floor = QuickFloor(screener.case, x)
        time_s, memory = floor.time_s(), floor.memory_bytes()[:, None]
        able = x.legal & (memory <= screener.capacity_bytes)
        self._parts = floor.parts(able, time_s)
        self.refined = np.zeros(len(x.tp), np.bool_)
        of_time = np.where(able, time_s, np.inf)
        of_memory = np.where(x.legal, memory, np.inf)
        return Bounds(of_time, of_memory, 0)

    def parts_left(self) -> list[Part]:
        """Parts of a large space that have quick bounds alone, the likeliest last."""
        assert self.bounds is not None
        return [] if self._parts is None else list(self._parts)

    def refine(self, part: Part) -> None:
        """Give the layouts of one part the bounds that their blocks have."""
        assert self._parts is not None and self._bounds is not None and self.refined is not None
        if self.refined[part.rows].all():
            return
        screener, x, _ = self._ask
        begun = time.perf_counter()
        screener.bounds_of_rows(x, part.rows, self._bounds.time_s, self._bounds.memory_bytes)
        self.refined[part.rows] = True
        self._parts = [other for other in self._parts if other is not part]
        self.took_s += time.perf_counter() - begun


def bounded(screener: Screener, x: Candidates, goals: Goals) -> Bounds:
    """Bounds of all that the goals look at: time and memory, and energy where one of them needs it."""
    bounds = screener.bounds(x)
    if any(m.uses_work for m in goals.metrics):
        bounds = replace(bounds, work_j=screener.work_j(x, bounds))
    return bounds


@dataclass(frozen=True, kw_only=True)
class Branch:
    """One cluster and precision: its candidates and their bounds."""

    case: Case
    setting: Setting
    candidates: Candidates
    screening: Screening
    scenario: Scenario
    """With this cluster and precision; the plan is what all candidates share."""
    screener: Screener
    """What the bounds came from, with the blocks that it priced."""
    ran: dict[Hashable, tuple[float, float]] = field(default_factory=dict)
    """What candidates with one step program have in common → its seconds and mean watts."""
    concrete: dict[tuple[float, int], ClosedPlans] = field(default_factory=dict)
    """Bytes of a device that may be reserved, and candidates after the techniques → what open ones become."""
    cluster_floor: LowerBounds = field(default_factory=LowerBounds.nothing)
    """What no plan of this cluster is below, as bounds of one candidate."""

    @property
    def bounds(self) -> Bounds:
        """Bounds of all candidates."""
        return self.screening.bounds

    def with_bounds(self, bounds: Bounds) -> Branch:
        """The same with other bounds."""
        return replace(self, screening=self.screening.known(bounds))

    def broken_limit(self, goals: Goals) -> str | None:
        """A limit that no plan of this cluster keeps to, as far as is known without their bounds."""
        for limit in goals.limits:
            if not np.all(limit.met(limit.metric.bound(goals.within(self.setting), self.cluster_floor))):
                return limit.metric.name
        return None

    def plan(self, layout: int, policy: int, goals: Goals) -> PlanSpec:
        """The plan of one candidate, its layers split and its recomputation chosen."""
        if not self.candidates.policies[policy].is_open:
            return self.candidates.plan(layout, policy)
        room = goals.room_bytes(self.setting)
        x, row, column = self.screener.located(self.candidates, layout, policy)
        if (room, id(x)) not in self.concrete:
            self.concrete[room, id(x)] = ClosedPlans(OpenCandidates(self.case, x, room))
        return self.concrete[room, id(x)].plan(row, column)

    def lower_bounds(self, cells: Ints) -> LowerBounds:
        """Bounds of some cells of the grid, by flat index."""
        work = self.bounds.work_j
        joules = 0.0 if work is None else work.reshape(-1)[cells]
        return LowerBounds(self.bounds.time_s.reshape(-1)[cells], self.bounds.memory_bytes.reshape(-1)[cells], joules)


@dataclass(frozen=True, slots=True, kw_only=True)
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
    whole_run: WholeRun | None = None
    """Expected figures of its run, where they were asked for."""

    @property
    def feasible(self) -> bool:
        """Whether it keeps to every limit."""
        return bool(self.fits) and not self.missed


@dataclass(frozen=True, slots=True, kw_only=True)
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

    goals: Goals
    keys: Floats
    """(n, objectives + 1), rising."""
    branch: Ints
    cell: Ints
    alive: Mask

    @classmethod
    def empty(cls, goals: Goals) -> _Queue:
        """No candidates yet."""
        none = np.zeros(0, np.int64)
        return cls(goals, np.zeros((0, len(goals.objectives) + 1)), none, none, np.zeros(0, np.bool_))

    @property
    def single(self) -> bool:
        """Whether there is one objective."""
        return len(self.goals.objectives) == 1

    def joined(self, at: int, which: int, branch: Branch, cells: Ints, found: Found) -> _Queue:
        """What is left from `at` on, with the candidates of one more cluster."""
        more = _keys(branch.setting, branch.lower_bounds(cells), self.goals)
        keys = np.concatenate([self.keys[at:], more]) if len(self.keys) > at else more
        which_of = np.concatenate([self.branch[at:], np.full(len(cells), which)])
        every = np.concatenate([self.cell[at:], cells])
        by_time = self.single and self.goals.objectives[0].name == "step_time"
        order = np.argsort(keys[:, -1], kind="stable") if by_time else np.lexsort(keys.T[::-1])
        alive = np.concatenate([self.alive[at:], np.ones(len(cells), np.bool_)])[order]
        out = _Queue(self.goals, keys[order], which_of[order], every[order], alive)
        for entry in found.front:
            out.drop(entry, 0)
        return out

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


def _keys(setting: Setting, floor: LowerBounds, goals: Goals) -> Floats:
    """The best keys that plans with these bounds could have, shape (n, objectives + 1)."""
    columns = [m.signed(m.bound(goals.within(setting), floor)) for m in goals.objectives]
    return np.stack([*columns, floor.time_s], axis=1)


@dataclass(slots=True)
class _Tally:
    """Candidates that limits rule out by their bounds, and those that the simulator refuses."""

    goals: Goals
    by_memory: int = 0
    by_limit: dict[str, int] = field(default_factory=dict)
    refused: int = 0

    def kept(self, branch: Branch, rows: Mask | None = None) -> Ints:
        """Candidates of a cluster (flat cells), or of some of its layouts, that no limit rules out by its bound."""
        x, bounds = branch.candidates, branch.bounds
        legal = x.legal if rows is None else x.legal & rows[:, None]
        count = int(legal.sum())
        known = legal & np.isfinite(bounds.memory_bytes)
        able = known & (bounds.memory_bytes <= branch.setting.memory_bytes * self.goals.memory_fraction)
        priced = able & np.isfinite(bounds.time_s)
        self.by_memory += int(known.sum()) - int(able.sum())
        self.refused += count - int(known.sum()) + int(able.sum()) - int(priced.sum())  # before there was a bound
        cells = np.flatnonzero(priced)
        for limit in self.goals.limits:
            ok = np.asarray(
                limit.met(limit.metric.bound(self.goals.within(branch.setting), branch.lower_bounds(cells)))
            )
            self.by_limit[limit.metric.name] += len(cells) - int(ok.sum())
            cells = cells[ok]
        return cells


def search(
    branches: Sequence[Branch],
    goals: Goals,
    *,
    report: Report | None = None,
    most: int | None = None,
    known: Mapping[tuple[int, int], Evaluated] | None = None,
    deadline: Deadline | None = None,
) -> tuple[Found, Proof]:
    """The plans that are best at something and keep to the limits, with the proof.

    A cluster whose candidates have no bounds yet gets them when the best that any of its plans could be comes first.

    Args:
        branches: clusters and precisions with their candidates.
        goals: objectives and limits.
        report: see `Report`.
        most: simulate no more plans than this.
        known: (branch, flat cell) → what an earlier search under these objectives and limits said of it.
        deadline: when the search is left with the best plan so far, once there is one.

    Ctrl-C ends the search with what it has; the proof then says how far it got.
    """
    run = _Search(branches, goals, report, most, known or {}, deadline or Deadline.never())
    run.run()
    return run.found, run.proof()


class _Search:
    """One search: the clusters that wait for bounds, the queue of candidates, and what was found."""

    def __init__(
        self,
        branches: Sequence[Branch],
        goals: Goals,
        report: Report | None,
        most: int | None,
        known: Mapping[tuple[int, int], Evaluated],
        deadline: Deadline,
    ) -> None:
        """Nothing has been looked at. Arguments are those of `search`."""
        self.deadline, self.half_s = deadline, 0.5 * deadline.left_s
        self.bounding_s = self.simulating_s = 0.0
        """Processor seconds of bounds in parts, and of simulations."""
        self.parts: list[tuple[int, Part]] = []
        """(cluster, layouts) of large spaces that have quick bounds alone, the likeliest last."""
        self.opened = 0
        """Parts that were looked at."""
        self.branches, self.goals, self.report, self.most, self.known = branches, goals, report, most, known
        self.found, self.metric = Found(), goals.objectives[0]
        self.tally = _Tally(goals, by_limit={limit.metric.name: 0 for limit in goals.limits})
        self.waiting: list[tuple[tuple[float, ...], int]] = []
        """Clusters without bounds: the best that any of their plans could be, the last first."""
        self.queue, self.at, self.screened, self.complete = _Queue.empty(goals), 0, 0, True

    def run(self) -> None:
        """Search until nothing can be better; Ctrl-C ends it with what it has."""
        try:
            self._enter_clusters()
            while self.at < len(self.queue.cell) or self.waiting or self.parts:
                bound = tuple(self.queue.keys[self.at].tolist()) if self.at < len(self.queue.cell) else None
                if self.waiting and (bound is None or self.waiting[-1][0] <= bound):
                    self._open_cluster()
                    continue
                if self.parts and self._wants_bounds():
                    self._open_part()
                    continue
                if bound is None or self.found.rules_out(bound):  # with one objective nothing later is better either
                    if not self.parts or self._late():
                        break
                    self._open_part()
                    continue
                if self._late():
                    self.complete = False
                    break
                if self.most is not None and len(self.found.evaluated) >= self.most:
                    self.complete = False
                    break
                self._take(bound)
        except KeyboardInterrupt:
            self.complete = False

    def _tell(self, possible: float) -> None:
        if self.report:
            best = self.metric.signed(self.found.best.key[0]) if self.found.best else float("nan")
            self.report(self.screened, len(self.found.evaluated), best, self.metric.signed(possible))

    def _enter_clusters(self) -> None:
        """Queue the candidates of clusters with bounds; the others wait, unless they break a limit as a whole."""
        for which, branch in enumerate(self.branches):
            if branch.screening.done:
                self._join(which)
            elif name := branch.broken_limit(self.goals):
                self.tally.by_limit[name] += branch.candidates.count
            else:
                best = tuple(_keys(branch.setting, branch.cluster_floor, self.goals)[0].tolist())
                self.waiting.append((best, which))
        self.waiting.sort(reverse=True)

    def _open_cluster(self) -> None:
        """Compute the bounds of the cluster that could be best, unless a found plan rules all of it out."""
        possible, which = self.waiting[-1]
        if not self.found.rules_out(possible):
            self._join(which)
            self._tell(possible[0])
        self.waiting.pop()

    def _join(self, which: int) -> None:
        """Queue a cluster's candidates; of a large space those with bounds, the others wait in parts."""
        branch = self.branches[which]
        left = branch.screening.parts_left()  # asks for the bounds
        rows: Mask | None = None
        if branch.screening.refined is not None:
            rows = np.ones(len(branch.candidates.tp), np.bool_)
            for part in left:
                rows[part.rows] = False
            legal = np.asarray(branch.candidates.legal.any(axis=1))
            self.parts += [(which, part) for part in left if legal[part.rows].any()]
        self._queue_rows(which, rows)

    def _queue_rows(self, which: int, rows: Mask | None) -> None:
        branch = self.branches[which]
        self.queue = self.queue.joined(self.at, which, branch, self.tally.kept(branch, rows), self.found)
        self.at = self.queue.next(0)
        legal = branch.candidates.legal
        self.screened += int(legal.sum() if rows is None else legal[rows].sum())

    def _late(self) -> bool:
        return self.found.best is not None and self.deadline.passed

    def _wants_bounds(self) -> bool:
        """Whether the next part of a large space gets its bounds before the next plan is simulated."""
        if self._late():
            return False
        if self.opened < FIRST_PARTS and self.deadline.left_s > self.half_s:
            return True
        return self.found.best is not None and self.bounding_s < self.simulating_s

    def _key(self, which: int, part: Part) -> tuple[float, ...]:
        """The best that a part without bounds of its own could be."""
        key = _keys(self.branches[which].setting, LowerBounds.nothing(part.floor_s), self.goals)[0]
        return tuple(key.tolist())

    def _open_part(self) -> None:
        """Give bounds to the likeliest part that a found plan does not rule out."""
        which, part = self.parts.pop()
        self.opened += 1
        key = self._key(which, part)
        if self.found.rules_out(key):
            return
        branch, begun = self.branches[which], time.process_time()
        branch.screening.refine(part)
        self.bounding_s += time.process_time() - begun
        rows = np.zeros(len(branch.candidates.tp), np.bool_)
        rows[part.rows] = True
        self._queue_rows(which, rows)
        least = min(self.parts, key=lambda other: other[1].floor_s, default=(which, part))
        self._tell(self._key(*least)[0])

    def _take(self, bound: tuple[float, ...]) -> None:
        """Simulate the first candidate of the queue, or take what an earlier search said of it."""
        found, which, cell = self.found, int(self.queue.branch[self.at]), int(self.queue.cell[self.at])
        entry, begun = self.known.get((which, cell)), time.process_time()
        if entry is None or (entry.fits is None and not entry.missed and not found.rules_out(entry.key)):
            entry = evaluate(self.branches, self.goals, found, which, cell)
        self.simulating_s += time.process_time() - begun
        self.at += 1
        if entry is not None:
            found.evaluated.append(entry)
            if entry.feasible and not found.rules_out(entry.key):
                found.take(entry)
                self.queue.drop(entry, self.at)
            self._tell(bound[0])
        self.at = self.queue.next(self.at)

    def proof(self) -> Proof:
        """What became of every candidate, and how good one that is still open could be."""
        found, tally, metric, queue = self.found, self.tally, self.metric, self.queue
        left = queue.alive[self.at :]
        unseen = [(key, which) for key, which in self.waiting if not found.rules_out(key)]
        of_unseen = sum(self.branches[which].candidates.count for _, which in unseen)
        parts = [(key, which, part) for which, part in self.parts if not found.rules_out(key := self._key(which, part))]
        of_parts = sum(int(self.branches[which].candidates.legal[part.rows].sum()) for _, which, part in parts)
        still_open = of_parts if self.complete else int(left.sum()) + of_unseen + of_parts
        ahead = queue.keys[self.at :, 0][left] if still_open else queue.keys[self.at :, 0]
        possible = [*ahead[:1].tolist(), *(key[0] for key, _ in unseen), *(key[0] for key, _, _ in parts)]
        simulated, count = len(found.evaluated), sum(b.candidates.count for b in self.branches)
        refused = tally.refused + len(found.refused)
        by_bound = count - tally.by_memory - sum(tally.by_limit.values()) - simulated - refused - still_open
        return Proof(
            candidates=count,
            pruned_by_memory=tally.by_memory,
            pruned_by_limit=tally.by_limit,
            pruned_by_bound=by_bound,
            simulated=simulated,
            refused=refused,
            open=still_open,
            objective=metric.name,
            best=float(metric.signed(found.best.key[0])) if found.best else float(metric.signed(np.inf)),
            next_bound=float(metric.signed(min(possible, default=np.inf))),
            best_s=found.best.step_time_s if found.best else float("inf"),
            complete=not still_open,
        )


def evaluate(branches: Sequence[Branch], goals: Goals, found: Found, which: int, cell: int) -> Evaluated | None:
    """One simulation; memory only where nothing else has ruled the plan out. None where the simulator refuses it."""
    branch = branches[which]
    case, x = branch.case, branch.candidates
    layout, policy = divmod(cell, x.legal.shape[1])
    plan = branch.plan(layout, policy, goals)

    def simulated() -> list[tuple[float, PreparedStep, Timeline]]:
        with frozen_gc():
            out = []
            for share, c in case.kinds_of_steps:
                step = prepare(c.model, c.cluster, c.training, plan, c.techniques, cache=c.cache)
                out.append((share, step, run(step)))
            return out

    twin = program_key(case, x, layout, policy)
    ran: list[tuple[float, PreparedStep, Timeline]] | None = None
    if twin not in branch.ran:
        try:
            ran = simulated()
        except BadInput as error:
            found.refused.append((which, plan, str(error)))
            return None
        seconds = sum(share * timeline.makespan_s for share, _, timeline in ran)
        joules = sum(share * t.makespan_s * power_of(step, t.makespan_s) for share, step, t in ran)
        branch.ran[twin] = seconds, joules / seconds
    seconds, watts = branch.ran[twin]
    figures = Figures(branch.setting, seconds, watts)
    if goals.asks_for_run:
        assert branch.setting.run is not None
        try:
            step = ran[0][1] if ran else prepare(case.model, case.cluster, case.training, plan, case.techniques)
            figures = replace(figures, whole_run=branch.setting.run.expected(step, seconds, watts))
        except BadInput as error:
            found.refused.append((which, plan, str(error)))
            return None
    fits: bool | None = None
    if not goals.missed(goals.values(figures)) and not found.rules_out(goals.key(figures)):
        memories = [memory_of(step, timeline) for _, step, timeline in ran or simulated()]
        reserved_bytes = max(memory.peak_reserved_bytes for memory in memories)
        figures = replace(figures, reserved_bytes=reserved_bytes)
        capacity = branch.setting.memory_bytes * goals.memory_fraction
        fits = reserved_bytes <= capacity and not any(memory.overfull for memory in memories)
    values = goals.values(figures)
    reserved = None if fits is None else figures.reserved_bytes
    return Evaluated(
        branch=which,
        layout=layout,
        policy=policy,
        plan=plan,
        bound_s=float(branch.bounds.time_s[layout, policy]),
        step_time_s=seconds,
        reserved_bytes=reserved,
        fits=fits,
        values=values,
        missed=goals.missed(values),
        key=goals.key(figures),
        whole_run=figures.whole_run,
    )
