"""Majority votes: the answer given most often, ties broken at random.

The right answer has probability p, wrong answer j has w_j·(1 − p), and what the histogram w leaves over are answers
that nobody repeats. Given c right votes of n, the wrong votes are multinomial; counts of all wrong answers stay below c
with a probability that follows from truncated Poisson laws (Levin 1981), exactly, ties included. Without a histogram,
which means do not identify, `USUAL_WRONG` is assumed and an interval stands for it (docs/internals/population.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from windtunnel.arrays import Floats

USUAL_WRONG: tuple[float, ...] = (0.25, 0.1, 0.05)
"""Shares of wrong answers where none are known: as AIME 2024's majority of 64 asks for on average."""
WRONG_BAND: tuple[tuple[float, ...], ...] = (
    (0.08, 0.04, 0.02),
    (0.15, 0.07, 0.04),
    (0.25, 0.1, 0.05),
    (0.35, 0.12, 0.06),
    (0.5, 0.15, 0.08),
)
"""Histograms that the same rows do not rule out, equally likely."""
_MOST_EXACT = 256
"""Votes up to which counts are exact; beyond, shares are compared as if n were large, with the noise of counts."""


def majority(p: Floats, n: int, wrong_answers: Sequence[Sequence[float]] = (USUAL_WRONG,)) -> Floats:
    """Probability that the answer given most often by n attempts is right.

    Args:
        p: success probability of a single attempt, shape (Q,).
        n: votes.
        wrong_answers: histograms of wrong answers, largest share first, equally likely over problems.

    Returns:
        Success probability of the vote, shape (Q,).
    """
    p = np.asarray(p, np.float64)
    total = np.zeros_like(p)
    for shares in wrong_answers:
        kept = tuple(float(w) for w in shares if w > 0)
        total += _exact(p, n, kept) if n <= _MOST_EXACT else _large(p, n, kept)
    found: Floats = np.clip(total / len(wrong_answers), 0.0, 1.0)
    return found


def bounds_without_answers(p: Floats, n: int) -> tuple[Floats, Floats]:
    """Least and greatest success of a vote of n, whatever wrong answers are: all agree, or none does.

    Args:
        p: success probability of a single attempt, shape (Q,).
        n: votes.
    """
    return majority(p, n, ((1.0,),)), majority(p, n, ((),))


def _exact(p: Floats, n: int, shares: tuple[float, ...]) -> Floats:
    """Sum over counts of right votes of P(count)·P(the right answer wins given it)."""
    from scipy.special import betaln

    wins = _wins(n, shares)
    c = np.arange(n + 1, dtype=np.float64)
    log_choose = -betaln(c + 1, n - c + 1) - np.log(n + 1)
    out = np.empty_like(p, dtype=np.float64)
    flat, found = p.ravel(), out.ravel()
    for first in range(0, len(flat), 4096):
        part = flat[first : first + 4096, np.newaxis]
        inside = np.clip(part, 1e-300, 1 - 1e-16)
        weight = np.exp(log_choose + c * np.log(inside) + (n - c) * np.log1p(-inside))
        value = weight @ wins
        value[part[:, 0] >= 1] = 1.0
        value[part[:, 0] <= 0] = 0.0
        found[first : first + 4096] = value
    return found.reshape(p.shape)


@lru_cache(maxsize=256)
def _wins(n: int, shares: tuple[float, ...]) -> Floats:
    """Probability that the right answer wins with c of n votes, for c = 0..n."""
    wins = np.zeros(n + 1)
    rest = max(0.0, 1.0 - sum(shares))
    for c in range(1, n + 1):
        wins[c] = _win(c, n - c, shares, rest)
    return wins


def _win(right: int, wrong: int, shares: tuple[float, ...], rest: float) -> float:
    """Mean of 1/(1 + answers that tie) where no wrong answer has more than `right` of `wrong` votes.

    1/(1 + T) = ∫ y^T dy: a term of a count that ties carries a factor y. Counts are Poisson with mean w_j·N given that
    they add up to N; the answers that nobody repeats have one vote each.
    """
    if wrong == 0 or 2 * right > right + wrong:
        return 1.0
    from scipy.special import gammaln

    nodes, weights = np.polynomial.legendre.leggauss((wrong if right == 1 else len(shares)) // 2 + 1)
    y = 0.5 * (nodes + 1.0)
    counts = np.arange(wrong + 1, dtype=np.float64)

    def poisson(mean: float) -> Floats:
        if mean <= 0:
            return np.asarray(counts == 0, np.float64)
        return np.asarray(np.exp(counts * np.log(mean) - mean - gammaln(counts + 1)), np.float64)

    total = 0.0
    norm = np.exp(wrong * np.log(wrong) - wrong - gammaln(wrong + 1))
    for at, weight in zip(y, weights, strict=True):
        tail = poisson(rest * wrong)
        joined = tail * at**counts if right == 1 else tail
        for share in shares:
            law = poisson(share * wrong)
            law[right] = law[right] * at if right <= wrong else 0.0
            law[right + 1 :] = 0.0
            joined = np.convolve(joined, law)[: wrong + 1]
        total += 0.5 * weight * joined[wrong]
    return float(min(1.0, total / norm))


def _large(p: Floats, n: int, shares: tuple[float, ...]) -> Floats:
    """Votes beyond `_MOST_EXACT`: the right share against each wrong one, with normal noise of their difference."""
    from scipy.special import ndtr

    top = shares[0] if shares else 0.0
    rival = top * (1.0 - p)
    rival = np.maximum(rival, 1.0 / n)
    noise = np.sqrt(np.maximum((p + rival - (p - rival) ** 2) / n, 1e-30))
    won: Floats = np.asarray(ndtr((p - rival) / noise), np.float64)
    for share in shares[1:]:
        other = share * (1.0 - p)
        won = won * ndtr((p - other) / np.sqrt(np.maximum((p + other - (p - other) ** 2) / n, 1e-30)))
    return won
