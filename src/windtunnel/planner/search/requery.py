"""Queries of a finished search: the best of a part of the space, or without one of its limits.

Bounds, simulations and the priced blocks of the search are kept, so that little is worked out twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from windtunnel.arrays import Mask
from windtunnel.planner.bounds.screen import Bounds
from windtunnel.planner.deadline import Deadline
from windtunnel.planner.objectives import Goals
from windtunnel.planner.search.branch_and_bound import Branch, Evaluated, Found, Screening, evaluate, search

UNLIMITED_BYTES = 2.0**60
"""Device memory that no plan exceeds."""


@dataclass(slots=True)
class FinishedSearch:
    """A finished search that answers further questions."""

    branches: Sequence[Branch]
    goals: Goals
    """Goals with the first objective alone, which `best` is about."""
    known: dict[tuple[int, int], Evaluated]
    """(branch, flat cell) → what a simulation said."""
    deadline: Deadline = field(default_factory=Deadline.never)
    """When answers are left out."""
    simulations: int = 0
    """Simulations beyond those of the search."""
    _bounds_without_limit: dict[int, Bounds] = field(default_factory=dict)

    @classmethod
    def of(cls, branches: Sequence[Branch], goals: Goals, found: Found) -> FinishedSearch:
        """After a search."""
        finished = cls(branches, replace(goals, objectives=goals.objectives[:1]), {})
        for entry in found.evaluated:
            finished._note(entry)
        return finished

    def _note(self, entry: Evaluated) -> None:
        width = self.branches[entry.branch].candidates.legal.shape[1]
        key = entry.key[0], entry.key[-1]  # of the first objective alone
        at = entry.branch, entry.layout * width + entry.policy
        if at not in self.known:
            self.simulations += 1
        self.known[at] = replace(entry, key=key)

    def best(
        self,
        allowed: Callable[[int], Mask] | None = None,
        *,
        goals: Goals | None = None,
        branches: Sequence[Branch] | None = None,
        known: bool = True,
    ) -> Evaluated | None:
        """The best plan that keeps to the limits, exactly.

        Args:
            allowed: number of a branch → candidates that count, (N, P) or broadcastable; absent: all.
            goals: other limits than the search had; the objective stays.
            branches: the same clusters with other bounds or memory.
            known: whether simulations of the search still hold under these limits; those that did not fit never do
                under other ones.

        Raises:
            KeyboardInterrupt: the search was interrupted, or time was up.
        """
        wanted, used = goals or self.goals, dict(enumerate(branches or self.branches))
        if allowed is not None:
            narrow = {i: b.candidates.legal & allowed(i) for i, b in used.items()}
            used = {
                i: replace(b, candidates=replace(b.candidates, legal=narrow[i]))
                for i, b in used.items()
                if narrow[i].any()
            }
        changed = goals is not None or branches is not None
        numbers = list(used)
        place = {number: at for at, number in enumerate(numbers)}
        kept = (
            {
                (place[i], cell): replace(e, branch=place[i], missed=wanted.missed(e.values))
                for (i, cell), e in self.known.items()
                if i in used and (not changed or (e.fits and not self._is_open(e)))
            }
            if known
            else {}
        )
        found, proof = search(list(used.values()), wanted, known=kept, deadline=self.deadline)
        if not proof.complete:
            raise KeyboardInterrupt
        if not changed:
            for entry in found.evaluated:
                self._note(replace(entry, branch=numbers[entry.branch]))
        return None if found.best is None else replace(found.best, branch=numbers[found.best.branch])

    def _is_open(self, entry: Evaluated) -> bool:
        """Whether the plan of a candidate depends on how much memory there is."""
        return self.branches[entry.branch].candidates.policies[entry.policy].is_open

    def simulate_memory(self, entry: Evaluated) -> Evaluated | None:
        """A simulated plan with its memory, which the search does not ask of slower ones."""
        if entry.fits is not None:
            return entry
        width = self.branches[entry.branch].candidates.legal.shape[1]
        full = evaluate(self.branches, self.goals, Found(), entry.branch, entry.layout * width + entry.policy)
        if full is not None:
            self._note(full)
        return full

    def bounds_without_memory_limit(self, which: int) -> Bounds:
        """Bounds of one branch on devices with any amount of memory: what memory ruled out gets its seconds."""
        if which not in self._bounds_without_limit:
            branch = self.branches[which]
            x, bounds, screener = branch.candidates, branch.bounds, branch.screener
            if branch.screening.refined is not None:  # a large space: what has bounds of its own has to do
                time_s = np.where(branch.screening.refined[:, None], bounds.time_s, np.inf)
                return replace(bounds, time_s=time_s)
            # what is open is split for the memory there is: its bound holds for no more than that
            spare = np.array([q.is_open for q in x.policies])
            more = x.legal & ((bounds.memory_bytes > screener.capacity_bytes) | spare)
            if more.any():
                kept, screener.capacity_bytes = screener.capacity_bytes, np.inf
                try:
                    found = screener.bounds(replace(x, legal=more))
                    bounds = replace(bounds, time_s=np.where(more, found.time_s, bounds.time_s))
                    if bounds.work_j is not None:
                        bounds = replace(bounds, work_j=screener.work_j(x, bounds))
                finally:
                    screener.capacity_bytes = kept
            self._bounds_without_limit[which] = bounds
        return self._bounds_without_limit[which]

    def branch_without_memory_limit(self, which: int) -> Branch:
        """A branch with the bounds of `bounds_without_memory_limit`, computed when the search comes to it."""
        branch = self.branches[which]
        if branch.screening.done and branch.screening.refined is None:
            return branch.with_bounds(self.bounds_without_memory_limit(which))
        screener = replace(branch.screener, capacity_bytes=np.inf)
        return replace(branch, screening=Screening(screener, branch.candidates, self.goals))

    def within_limits(self, which: int) -> Mask:
        """Candidates of a branch that no limit rules out by its bound."""
        branch = self.branches[which]
        bounds, shape = branch.bounds, branch.candidates.legal.shape
        capacity = branch.setting.memory_bytes * self.goals.memory_fraction
        able = branch.candidates.legal & (bounds.memory_bytes <= capacity) & np.isfinite(bounds.time_s)
        cells, setting = np.flatnonzero(able), self.goals.within(branch.setting)
        for limit in self.goals.limits:
            cells = cells[np.asarray(limit.met(limit.metric.bound(setting, branch.lower_bounds(cells))))]
        out: Mask = np.zeros(shape[0] * shape[1], np.bool_)
        out[cells] = True
        return out.reshape(shape)
