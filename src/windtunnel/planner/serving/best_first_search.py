"""Best-first search: candidates by their bound, each simulated at request level until none left can win.

What is certain: a candidate that is left out by its bound cannot keep the objective, or cannot be better than the best
that was simulated. What is assumed, and counted apart: where the load is searched, that a deployment which fails at a
load fails at higher ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from windtunnel.arrays import Floats, Ints, Mask
from windtunnel.planner.deadline import GRACE_S, Deadline
from windtunnel.planner.serving.candidate_table import NOTHING, REFUSED, TOO_MUCH, TOO_SLOW, CandidateTable
from windtunnel.planner.serving.instance_types import InstanceType
from windtunnel.planner.serving.objectives import Goals
from windtunnel.planner.serving.simulate_candidate import Runs, Trial

FIRST, FEW = 24, 8
"""Columns that are simulated by their estimate before the bounds take over: until one is good, and at least."""
TRIES, OTHERS = 3, 8
"""Candidates of another cut that are simulated for the answer to compare with, and cuts."""
MOST = 20_000
"""Simulations that end a search."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A simulated candidate."""

    index: int
    trial: Trial
    values: dict[str, float]
    key: tuple[float, ...]
    missed: tuple[str, ...]
    """What it breaks: slo, saturated, rejected, limits by name."""

    @property
    def good(self) -> bool:
        """Whether it keeps everything."""
        return not self.missed


@dataclass(slots=True, kw_only=True)
class Proof:
    """What became of all candidates."""

    candidates: int
    too_slow: int = 0
    """A request alone takes longer than the objective allows."""
    too_much: int = 0
    """Their work does not fit the time that the objective leaves."""
    limits: int = 0
    """Break a limit whatever a run says."""
    bound: int = 0
    """Bound no better than the best."""
    load: int = 0
    """Left out because the deployment failed at a lower load (assumed, not proven)."""
    simulated: int = 0
    """Runs of the request loop."""
    settled: int = 0
    """Equal to a run that was made: only limits differ that no request met."""
    refused: int = 0
    """The engine does not start."""
    open: int = 0
    """Neither simulated nor left out: the search was ended."""
    unscreened: bool = False
    """Whether the search ended before every deployment had a bound."""
    best: float = float("nan")
    next_bound: float = float("nan")
    """The best that an open candidate could be."""

    @property
    def complete(self) -> bool:
        """Whether nothing is open."""
        return self.open == 0 and not self.unscreened

    @property
    def gap(self) -> float | None:
        """How much better than the best an open candidate could still be, as a share; None where nothing bounds it."""
        if self.complete:
            return 0.0
        known = np.isfinite(self.best) and np.isfinite(self.next_bound) and self.best and not self.unscreened
        return abs(self.next_bound - self.best) / abs(self.best) if known else None


@dataclass(slots=True)
class Found:
    """What a search found."""

    best: Evaluated | None = None
    front: list[Evaluated] = field(default_factory=list)
    """With several objectives: those that no other beats in all."""
    evaluated: list[Evaluated] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Search:
    """One search over screened candidates; `upper` asks for the objective at the upper end of the interval."""

    kinds: list[InstanceType]
    runs: Runs
    goals: Goals
    upper: bool
    falling: bool
    """Whether failing at a load means failing at higher ones (searched loads)."""
    tell: Callable[[int, float, float], None]
    deadline: Deadline = field(default_factory=Deadline.never)
    """When the search ends with the best so far; without any it goes on for `GRACE_S`."""
    ended: bool = False
    """Whether it was interrupted, or ended by its deadline."""
    table: CandidateTable = field(default_factory=lambda: CandidateTable.joined([]))
    found: Found = field(default_factory=Found)
    proof: Proof = field(default_factory=lambda: Proof(candidates=0))
    _bound: Floats = field(default_factory=lambda: np.zeros((0, 1)))
    _alive: Mask = field(default_factory=lambda: np.zeros(0, np.bool_))
    _failed: dict[int, float] = field(default_factory=dict)
    """Group → the lowest load that it failed at."""

    def offer(self, table: CandidateTable) -> None:
        """Take candidates in, and simulate the most promising few of them."""
        self._join(table)
        self._go(self._start)

    def finish(self) -> tuple[Found, Proof]:
        """Search until every candidate is simulated or cannot win, or until the search is ended."""
        self._go(self._certify, self._simplify)
        return self.found, self.proof

    def further(self, more: CandidateTable) -> tuple[Found, Proof]:
        """Go on with more candidates of the same kinds: loads between two that were tried."""
        self._join(more)
        return self.finish()

    def _join(self, more: CandidateTable) -> None:
        bound = self.goals.bounds(more.best)
        able, within = more.impossible == NOTHING, np.isfinite(bound[:, 0])
        failed = np.array([self._failed.get(int(g), np.inf) for g in more.group]) if self._failed else np.inf
        above = able & within & (more.load >= failed)
        p = self.proof
        p.candidates += len(more)
        p.too_slow += int((more.impossible == TOO_SLOW).sum())
        p.too_much += int((more.impossible == TOO_MUCH).sum())
        p.refused += int((more.impossible == REFUSED).sum())
        p.limits += int((able & ~within).sum())
        p.load += int(above.sum())
        first = not len(self.table)
        self.table = more if first else CandidateTable.joined([self.table, more])
        self._bound = bound if first else np.concatenate([self._bound, bound])
        self._alive = np.concatenate([self._alive, able & within & ~above])

    def _go(self, *steps: Callable[[], None]) -> None:
        before = self.runs.simulated, self.runs.settled
        try:
            for step in steps:
                step()
        except KeyboardInterrupt:
            self.ended = True
        goals = self.goals
        self.proof.simulated += self.runs.simulated - before[0]
        self.proof.settled += self.runs.settled - before[1]
        self.proof.open = int(self._alive.sum())
        if self.proof.open:
            self.proof.next_bound = float(goals.objectives[0].signed(self._bound[self._alive, 0].min()))
        if self.found.best is not None:
            self.proof.best = self.found.best.values[goals.objectives[0].name]

    def late(self) -> bool:
        """Whether the search ends now."""
        left = self.deadline.left_s
        self.ended = self.ended or left < (0.0 if self.found.best is not None else -GRACE_S)
        return self.ended

    # -- order ---------------------------------------------------------------------------------------------------------
    def _likely(self) -> Mask:
        """Candidates that are estimated to keep the objective."""
        table = self.table
        limits = np.empty((2, 2, len(self.kinds)))  # whole and split, TTFT and TPOT, kind
        for f, form in enumerate(("whole", "split")):
            for i, kind in enumerate(self.kinds):
                slo = self.runs.tightened(kind, form) if self.upper else self.goals.slo
                limits[f, :, i] = slo.ttft_s or np.inf, slo.tpot_s or np.inf
        own = limits[(table.answers >= 0).astype(np.int64), :, table.kind]
        return np.asarray((table.estimate[0] <= own[:, 0]) & (table.estimate[1] <= own[:, 1]))

    def runners_up(self) -> None:
        """Simulate other cuts that keep the objective, so that the answer can say by how much they lose.

        Their bounds ruled them out; a few of each are tried, the likeliest first.
        """
        best, table = self.found.best, self.table
        if best is None or not self.proof.complete:
            return
        pair = table.kind * len(self.kinds) + table.answers
        tried = {int(pair[e.index]) for e in self.found.evaluated if e.good}
        at = np.flatnonzero((table.impossible == NOTHING) & np.isfinite(self._bound[:, 0]) & self._likely())
        at = at[np.lexsort((table.estimate[1, at], self._plainness(at), self._bound[at, 0]))]
        left: dict[int, set[float]] = {}
        for i in at:
            own, bound = int(pair[i]), round(float(self._bound[i, 0]), 6)
            seen = left.get(own, set())
            if own in tried or len(seen) >= TRIES or bound in seen or (own not in left and len(left) >= OTHERS):
                continue
            left[own] = seen | {bound}
            e = self._simulate(int(i))
            if e is not None and e.good:
                tried.add(own)

    def _promising(self) -> Ints:
        """Columns that are estimated to keep the objective, the best first, then the simplest."""
        table, slo = self.table, self.goals.slo
        first, token = table.estimate[0], table.estimate[1]
        at = np.flatnonzero(self._alive & self._likely())
        if not len(at):
            at = np.flatnonzero(self._alive)
            over = first[at] / (slo.ttft_s or 1.0) + token[at] / (slo.tpot_s or 1.0)
            return np.asarray(at[np.argsort(over, kind="stable")])
        best = self.table.best
        likely = type(best)(
            best.devices,
            best.price,
            table.estimate[2],
            table.estimate[2] * table.requests_per_token,
            1.0 / token,
            best.least_w,
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            keys = self.goals.bounds(likely)[at, 0]
        return np.asarray(at[np.lexsort((token[at], self._plainness(at), np.nan_to_num(keys, nan=np.inf)))])

    def _plainness(self, at: Ints) -> Floats:
        """How many kinds of parallelism a candidate has, replicas apart, and limits that are not the engine's own."""
        table = self.table
        kinds = np.array([(k.plan.pp > 1) + (k.plan.dp > 1) + (k.plan.ep > 1) for k in self.kinds], float)
        default = np.array([(_place(k.sequences, k.default[0]), _place(k.tokens, k.default[1])) for k in self.kinds])
        default = default[table.kind[at]]
        changed = (default[:, 0] != table.sequences[at]) * 0.25 + (default[:, 1] != table.tokens[at]) * 0.25
        split = np.where(table.answers[at] >= 0, 1.0 + kinds[np.maximum(table.answers[at], 0)], 0.0)
        return np.asarray(kinds[table.kind[at]] + changed + split)

    def _start(self) -> None:
        """Simulate the most promising few, so that bounds have something to beat; the deadline waits for the first."""
        seen: set[int] = set()
        for i in self._promising():
            one = self.found.best is not None
            enough = one and len(self.goals.objectives) == 1 and len(seen) >= FEW
            if enough or len(seen) >= FIRST or (one and self.late()):
                break
            if int(self.table.group[i]) in seen and not self.found.best:
                continue
            seen.add(int(self.table.group[i]))
            if self._alive[i]:
                self._simulate(int(i))
            if len(seen) == FEW and self.found.best is None:
                self._seek()

    def _seek(self) -> None:
        """Find a first plan where the promising few were none: the load of the most promising, then the safest ones."""
        if self.falling:
            for i in self._promising()[:1]:
                self._in_group(int(i), wait=True)
        for i in self._safest()[:FEW]:
            if self.found.best is not None:
                return
            self._simulate(int(i))

    def _safest(self) -> Ints:
        """Columns by the part of the objective that comes nearest to its limit, by their estimate."""
        at, slo = np.flatnonzero(self._alive), self.goals.slo
        first, token = self.table.estimate[0, at], self.table.estimate[1, at]
        with np.errstate(invalid="ignore"):  # a time without end where nothing limits it
            nearest = np.maximum(first / (slo.ttft_s or np.inf), token / (slo.tpot_s or np.inf))
        return np.asarray(at[np.lexsort((self._plainness(at), np.nan_to_num(nearest, nan=np.inf)))])

    def _certify(self) -> None:
        """Best-first by bound; ties go to the simpler deployment, then to the estimate."""
        while True:
            self._prune()
            at = np.flatnonzero(self._alive)
            if not len(at) or self.runs.simulated >= MOST or self.late():
                return
            order = np.lexsort((self.table.estimate[1, at], self._plainness(at), self._bound[at, 0]))
            # several at a time: sorting costs more than a run
            for i in at[order[: max(8, len(at) // 64)]]:
                if not self._alive[i]:
                    continue
                if self.late():
                    return
                best = self.found.best
                if best is not None and len(self.goals.objectives) == 1 and self._bound[i, 0] >= best.key[0]:
                    break
                self._in_group(int(i)) if self.falling else self._simulate(int(i))

    def _simplify(self) -> None:
        """Simulate the best one's deployment with the engine's own limits too: simpler, and perhaps as good."""
        best, table = self.found.best, self.table
        if best is None:
            return
        i = best.index
        same = (table.kind == table.kind[i]) & (table.replicas == table.replicas[i]) & (table.load == table.load[i])
        same &= (table.answers == table.answers[i]) & (table.answering == table.answering[i])
        same &= table.answer_sequences == table.answer_sequences[i]
        tried = {e.index for e in self.found.evaluated}
        at = np.flatnonzero(same & (table.impossible == NOTHING))
        plain = self._plainness(at)
        for j in at[np.argsort(plain, kind="stable")][:4]:
            if plain[at == j][0] < self._plainness(np.array([i]))[0] and int(j) not in tried and not self.late():
                self._simulate(int(j))

    def _prune(self) -> None:
        """Leave out what cannot be better than what was found."""
        alive = self._alive
        if len(self.goals.objectives) == 1:
            if self.found.best is None:
                return
            out = alive & (self._bound[:, 0] >= self.found.best.key[0])
        else:
            out = np.zeros(len(alive), np.bool_)
            for e in self.found.front:
                out |= alive & (self._bound >= np.array(e.key)).all(axis=1)
        self.proof.bound += int(out.sum())
        self._alive = alive & ~out

    # -- one candidate -------------------------------------------------------------------------------------------------
    def _in_group(self, index: int, *, wait: bool = False) -> None:
        """Find the largest load that a deployment keeps, of those that can still win.

        Args:
            index: of one of its candidates.
            wait: whether the deadline waits for it.
        """
        members = np.flatnonzero(self._alive & (self.table.group == self.table.group[index]))
        best = self.found.best
        if best is not None:
            members = members[self._bound[members, 0] < best.key[0]]
        members = members[np.argsort(self.table.load[members], kind="stable")]
        low, high = 0, len(members)
        at = 0
        while low < high:
            if not wait and self.late():
                return
            e = self._simulate(int(members[at])) if self._alive[members[at]] else None
            if e is not None and "slo" not in e.missed and "saturated" not in e.missed:
                low = at + 1
            else:
                high = at
                self._failed[int(self.table.group[index])] = float(self.table.load[members[at]])
            at = (low + high) // 2
        rest = members[self._alive[members] & (np.arange(len(members)) >= high)]
        self.proof.load += len(rest)
        self._alive[rest] = False

    def _simulate(self, index: int) -> Evaluated | None:
        table = self.table
        self._alive[index] = False
        trial = self.runs.run(table.at(self.kinds, index))
        if trial is None:
            self.proof.refused += 1
            return None
        values = self.goals.values(trial.figures)
        share = trial.share_upper if self.upper else trial.share
        missed = [*self.goals.missed(values)]
        missed += ["slo"] if share < self.goals.slo.percentile else []
        missed += ["saturated"] if trial.saturated else []
        missed += ["rejected"] if trial.rejected else []
        e = Evaluated(index, trial, values, self.goals.key(values), tuple(missed))
        self.found.evaluated.append(e)
        if e.good:
            self._take(e)
        best = self.found.best
        self.tell(self.runs.simulated, best.key[0] if best else np.nan, float(self._bound[index, 0]))
        return e

    def _take(self, e: Evaluated) -> None:
        if self.found.best is None or e.key < self.found.best.key:
            self.found.best = e
        if len(self.goals.objectives) > 1:
            key = np.array(e.key)
            if not any((np.array(f.key) <= key).all() for f in self.found.front):
                kept = [f for f in self.found.front if not (key <= np.array(f.key)).all()]
                self.found.front = [*kept, e]


def _place(values: tuple[int, ...], value: int) -> int:
    return values.index(value) if value in values else -1
