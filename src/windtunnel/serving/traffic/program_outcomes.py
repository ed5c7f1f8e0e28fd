"""What nodes of a program return, drawn before it is served: right attempts, verdicts on them, and who is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.random import Generator

from windtunnel.arrays import Floats, Ints, Mask

Choice = Literal["", "accepted", "checker", "majority", "score", "random"]
"""How a join chooses among what it waits for: one that a judge accepted, one that is right, the most frequent answer,
the highest score, or any."""
NONE = -1


class Outcomes(Protocol):
    """Draws of a population, one program each."""

    def attempts(self, programs: Ints, worth: float) -> Mask:
        """(T,) whether an attempt at each program's problem is right, where it is worth so many fresh ones."""
        ...

    def verdicts(self, right: Mask, rates: tuple[float, float]) -> Mask:
        """(T,) whether attempts are accepted, by the rates for right and for wrong ones."""
        ...

    def labels(self, right: Mask) -> Ints:
        """(T, n) answers of attempts: 0 the right one, other numbers wrong ones."""
        ...

    def scores(self, right: Mask) -> Floats:
        """(T, n) scores of attempts."""
        ...

    def random(self) -> Generator:
        """For ties and choices at random."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What a join chose, for T programs of n attempts."""

    place: Ints
    """(T,) which of the n."""
    right: Mask
    """(T,) whether it is right."""
    accepted: Mask | None
    """(T,) whether a judge accepted it; None: none judged."""
    waits: Mask
    """(T, n) nodes whose ends may settle it, where it is over as soon as it is settled."""
    needs: Ints
    """(T,) how many of these must be over then."""


def chosen(how: Choice, right: Mask, accepted: Mask | None, runs: Mask, outcomes: Outcomes) -> Chosen:
    """Choose among attempts.

    Args:
        how: the rule.
        right: (T, n) whether each is right.
        accepted: (T, n) verdicts on them; None: nobody judged.
        runs: (T, n) whether each is part of its program; one at least is.
        outcomes: draws answers and scores.
    """
    random = outcomes.random()
    count = runs.sum(1)
    good: Mask = runs
    settled: Mask = np.zeros(right.shape, np.bool_)
    needs = count
    if how == "accepted" or how == "checker":
        good = runs & (right if how == "checker" or accepted is None else accepted)
        found: Mask = np.any(good, axis=1)
        settled, needs = good, np.where(found, 1, count)
        good = np.where(found[:, None], good, runs)
    elif how == "majority":
        given = np.where(runs, outcomes.labels(right), np.iinfo(np.int64).min)
        votes = (given[:, :, None] == given[:, None, :]).sum(2) * runs
        most = votes.max(1)
        good = runs & (votes == most[:, None])
        settled = good & (2 * most > count)[:, None]
        needs = np.where(np.any(settled, axis=1), count // 2 + 1, count)
    elif how == "score":
        scores = np.where(runs, outcomes.scores(right), -np.inf)
        good = scores == scores.max(1)[:, None]
    place = np.where(good, random.random(right.shape), -1.0).argmax(1)
    rows = np.arange(len(right))
    some: Mask = np.any(settled, axis=1)
    return Chosen(
        place=place.astype(np.int64),
        right=right[rows, place],
        accepted=None if accepted is None else accepted[rows, place],
        waits=np.where(some[:, None], settled, runs),
        needs=needs.astype(np.int64),
    )
