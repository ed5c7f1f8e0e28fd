"""What attempts say beyond right and wrong: how often wrong answers agree, and how long answers are."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.specs.population import AnswerLengths, LengthLaw

FEWEST_WRONG = 8
"""Wrong attempts at a problem from which its histogram is read."""
KINDS, MOST_ANSWERS = 5, 8
FEWEST_LENGTHS = 10
"""Right and wrong attempts from which lengths are read."""


def wrong_histograms(wrong: Mapping[str, Mapping[str, int]]) -> tuple[tuple[float, ...], ...]:
    """Shares of the most frequent wrong answers, for kinds of problem that are equally frequent.

    Problems are put in order of the share of their first wrong answer and cut into at most five groups; shares of a
    group are means over its problems, rounded down so that they never add up to more than 1. An answer that was given
    once counts as one that nobody repeats.

    Args:
        wrong: how often each wrong answer was given, by problem.
    """
    rows = []
    for counts in wrong.values():
        total = sum(counts.values())
        if total >= FEWEST_WRONG:
            shares = sorted((n / total for n in counts.values() if n > 1), reverse=True)[:MOST_ANSWERS]
            rows.append(shares + [0.0] * (MOST_ANSWERS - len(shares)))
    if not rows:
        return ()
    ordered = np.array(sorted(rows), np.float64)
    groups = np.array_split(ordered, min(KINDS, len(ordered)))
    kinds = [np.floor(group.mean(axis=0) * 1e4 + 1e-6) / 1e4 for group in groups]
    return tuple(tuple(float(x) for x in kind if x > 0) for kind in kinds)


def lengths_of(right: Floats, wrong: Floats) -> AnswerLengths | None:
    """Lognormal laws of the tokens of right and of wrong attempts; None where either are few."""
    laws = []
    for chosen in (right, wrong):
        if len(chosen) < FEWEST_LENGTHS:
            return None
        laws.append(LengthLaw(mean=float(f"{chosen.mean():.6g}"), sigma=float(f"{min(np.log(chosen).std(), 5.0):.4g}")))
    return AnswerLengths(correct=laws[0], wrong=laws[1])
