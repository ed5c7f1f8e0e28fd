"""Votes as they are drawn: which answers attempts give, when a vote is over, and who wins it.

Used by programs, whose attempts are drawn, and for chances that have no closed form: those are means over 2,000 draws
at fixed random numbers for each of 41 success probabilities, interpolated between them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.random import Generator

from windtunnel.arrays import Floats, Ints, Mask

RIGHT = 0
"""Label of the right answer; wrong ones that repeat are 1, 2, …, those that nobody repeats −1, −2, …"""
_DRAWS, _POINTS, _SEED = 2000, 41, 20231
_MOST_VALUES = 4_000_000
Histograms = Sequence[Sequence[float]]


def labels(right: Mask, wrong_answers: Histograms, random: Generator) -> Ints:
    """(M, n) answers of attempts that are right or wrong; each row is one problem with a histogram of its own."""
    width = max((len(kind) for kind in wrong_answers), default=0)
    shares = np.array([[*kind, *[0.0] * (width - len(kind))] for kind in wrong_answers]).reshape(
        len(wrong_answers), width
    )
    ends = shares.cumsum(1)[random.integers(0, len(shares), len(right))]
    drawn = random.random(right.shape)
    which = (drawn[:, :, None] >= ends[:, None, :]).sum(2) + 1
    alone = -1 - np.arange(right.shape[1])
    return np.where(right, RIGHT, np.where(which > width, alone, which))


def leaders(given: Ints) -> tuple[Ints, Ints]:
    """(M, n) votes of the first and of the second answer after 1, 2, …, n attempts."""
    most = int(given.max(initial=0))
    counts = [(given == label).cumsum(1) for label in range(most + 1)]
    alone = (given < 0).cumsum(1)
    counts += [np.minimum(alone, 1), np.minimum(np.maximum(alone - 1, 0), 1)]
    ordered = np.sort(np.stack(counts), axis=0)
    return ordered[-1], ordered[-2]


def certain_after(given: Ints) -> Ints:
    """(M,) attempts after which no further one can change who wins."""
    n = given.shape[1]
    first, second = leaders(given)
    over = first - second > n - np.arange(1, n + 1)
    over[:, -1] = True
    found: Ints = over.argmax(1) + 1
    return found


def likely_after(given: Ints, certainty: float) -> Ints:
    """(M,) attempts after which the leader is ahead of the second with a probability, or the vote is certain.

    The chance is that of a Beta law of both counts (Aggarwal et al. 2023, arXiv 2305.11860, equation 2).
    """
    from scipy.special import betainc

    first, second = leaders(given)
    n = given.shape[1]
    over = 1.0 - betainc(first + 1.0, second + 1.0, 0.5) >= certainty
    over |= first - second > n - np.arange(1, n + 1)
    over[:, -1] = True
    found: Ints = over.argmax(1) + 1
    return found


def settled_after(given: Ints, certainty: float, each: int) -> Ints:
    """(M,) attempts after which answers agree, asked for after every round of `each`; all of them where they never do.

    They agree where 1 − H / log m is at least `certainty`: H is the entropy of the m answers so far, so that 1 means
    that all are the same and 0 that all differ (Fu et al. 2024, arXiv 2412.20993, certaindex of votes).
    """
    n = given.shape[1]
    m = np.arange(1, n + 1, dtype=np.float64)
    total = np.zeros(given.shape)
    for label in range(int(given.max(initial=0)) + 1):
        count = (given == label).cumsum(1)
        total += count * np.log(np.maximum(count, 1))
    agree = np.where(m > 1, total / np.maximum(m * np.log(m), 1e-300), 1.0)
    over = (agree >= certainty - 1e-12) & (m % each == 0)
    over[:, -1] = True
    found: Ints = over.argmax(1) + 1
    return found


def winner_right(given: Ints, weights: Floats | None = None, counted: Mask | None = None) -> Floats:
    """(M,) chance that the answer with the greatest weight is right, ties broken at random.

    Args:
        given: (M, n) answers.
        weights: (M, n) of each vote; absent: 1.
        counted: (M, n) whether a vote counts; absent: all.
    """
    own = np.ones(given.shape) if weights is None else weights
    own = own if counted is None else np.where(counted, own, 0.0)
    most = int(given.max(initial=0))
    sums = [np.where(given == label, own, 0.0).sum(1) for label in range(most + 1)]
    alone = np.where(given < 0, own, 0.0)
    best = np.maximum(np.max(sums, axis=0), alone.max(1))
    ties = sum((s >= best - 1e-9).astype(np.float64) for s in sums) + (alone >= best[:, None] - 1e-9).sum(1)
    found: Floats = np.where(sums[RIGHT] >= best - 1e-9, 1.0 / ties, 0.0)
    return np.where(best > 0, found, 0.0)


def over_points(p: Floats, chance: Callable[[float, int, Generator], float], n: int, known_as: str = "") -> Floats:
    """(Q,) a chance that is drawn, by success probability.

    Args:
        p: (Q,) success probabilities of one attempt.
        chance: (p, draws, random numbers) → mean over the draws.
        n: attempts of a draw, which decide how many draws are made.
        known_as: everything that the chance depends on next to p, as a text: draws are made once for each.
    """
    from scipy.special import expit

    at = np.concatenate([[0.0], expit(np.linspace(-9.0, 9.0, _POINTS)), [1.0]])
    values = _KNOWN.get(known_as) if known_as else None
    if values is None:
        draws = max(100, min(_DRAWS, _MOST_VALUES // n))
        values = [chance(float(x), draws, np.random.default_rng((_SEED, n))) for x in at]
        if known_as and len(_KNOWN) < _MOST_KNOWN:
            _KNOWN[known_as] = values
    return np.interp(p, at, values)


_KNOWN: dict[str, list[float]] = {}
_MOST_KNOWN = 256
"""Chances that were drawn in this process, by what they depend on."""


def weighted_vote(p: Floats, n: int, wrong_answers: Histograms, separation: float) -> Floats:
    """(Q,) chance that the answer whose scores add up to most is right.

    Scores are normal, `separation` apart in the mean, and count by the share of all normal numbers below them, which
    is from 0 to 1 as a reward model's are.
    """
    return weighted_votes(p, n, wrong_answers, (separation,))[0]


def weighted_votes(p: Floats, n: int, wrong_answers: Histograms, separations: Sequence[float]) -> list[Floats]:
    """The same for several separations, over the same draws: (Q,) each."""
    kinds = tuple(tuple(float(x) for x in kind) for kind in wrong_answers)
    at, values = _weighted(n, kinds, tuple(float(d) for d in separations))
    return [np.interp(p, at, own) for own in values]


@lru_cache(maxsize=64)
def _weighted(
    n: int, kinds: tuple[tuple[float, ...], ...], separations: tuple[float, ...]
) -> tuple[Floats, list[Floats]]:
    from scipy.special import expit, ndtr

    at = np.concatenate([[0.0], expit(np.linspace(-9.0, 9.0, _POINTS)), [1.0]])
    draws = max(100, min(_DRAWS, _MOST_VALUES // n))
    values = np.zeros((len(separations), len(at)))
    for k, p in enumerate(at):
        random = np.random.default_rng((_SEED, n))
        right = random.random((draws, n)) < p
        given = labels(right, kinds, random)
        noise = random.standard_normal((draws, n))
        for s, separation in enumerate(separations):
            scores = ndtr(noise + np.where(right, separation / 2, -separation / 2))
            values[s, k] = winner_right(given, scores).mean()
    return at, list(values)
