"""Searches for the best choice of a `stage_table.StageTable`, where a trial costs a measurement: one file each.

A search is a generator: it yields places in the table, is sent what was measured there, and may end when it has no idea
left; `trials_until` goes on at random then.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator as Random

from windtunnel.registry import Registry
from windtunnel_lab.models.programs.stage_table import StageTable

Trials = Generator[int, float, None]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSearch:
    """An entry of `STAGE_SEARCHES`."""

    id: str
    summary: str
    run: Callable[[StageTable, Random], Trials]


STAGE_SEARCHES: Registry[StageSearch] = Registry(
    "stage searches", package="windtunnel_lab.models.programs.stage_searches", noun="search"
)


def trials_until(table: StageTable, search: StageSearch, *, near: float, examples: int, random: Random) -> int:
    """Trials until a choice was measured whose accuracy is near the best of the table.

    Args:
        table: of all choices.
        search: proposes trials.
        near: share of the best accuracy that is near enough.
        examples: problems that a trial is measured on; 0: accuracy is seen as it is.
        random: draws what is measured, and trials once the search has ended.

    Returns:
        How many, the last included; a choice that is proposed again is not measured again.
    """
    enough = near * float(table.accuracy.max())
    seen: dict[int, float] = {}
    trials = search.run(table, random)
    place: int | None = next(trials, None)
    while True:
        if place is None:
            place = int(random.choice([i for i in range(len(table.accuracy)) if i not in seen]))
        if place not in seen:
            own = float(table.accuracy[place])
            seen[place] = random.binomial(examples, own) / examples if examples else own
            if own >= enough:
                return len(seen)
        try:
            place = trials.send(seen[place])
        except StopIteration:
            place = None


def mean_trials(table: StageTable, id: str, *, near: float, examples: int, repeats: int, seed: int = 0) -> float:
    """Mean of `trials_until` over searches with different random numbers."""
    search = STAGE_SEARCHES.get(id)
    each = [
        trials_until(table, search, near=near, examples=examples, random=np.random.default_rng((seed, k)))
        for k in range(repeats)
    ]
    return float(np.mean(each))
