"""Who chooses among attempts at a problem, and how often the choice is right."""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.population import majority, pass_at_k, reward_model
from windtunnel.programs.quality import Quality
from windtunnel.programs.strategy import Banded
from windtunnel.programs.votes import weighted_votes

SELECTORS = ("majority", "verifier", "weighted", "checker", "random")
"""By the most frequent answer; by the verifier's highest score; by its scores summed over equal answers; by who knows
right from wrong (unit tests, a proof checker); at random."""
SEPARATIONS = (0.3, 0.8)
"""Ends of what reward models reach on public rows (docs/internals/population.md)."""


def is_scored(n: int, selector: str) -> bool:
    """Whether the verifier is called for each of n attempts."""
    return n > 1 and selector in ("verifier", "weighted")


def chosen(p: Floats, n: int, selector: str, quality: Quality) -> Floats | Banded:
    """(Q,) chance that the chosen one of n attempts is right.

    Args:
        p: (Q,) chance of one attempt.
        n: attempts, from 1; with one there is nothing to choose.
        selector: of `SELECTORS`.
        quality: of verifier and votes; what it does not know is an interval.
    """
    if n == 1 or selector == "random":
        return p
    match selector:
        case "checker":
            return pass_at_k.at_least_one(p, n)
        case "verifier":
            return by_verifier(p, n, quality)
        case "weighted":
            return _weighted(p, n, quality)
    return by_majority(p, n, quality)


def by_majority(p: Floats, n: int, quality: Quality) -> Floats | Banded:
    """(Q,) chance that the most frequent answer is right; an interval where no wrong answers are known."""
    if quality.wrong_answers:
        return majority.majority(p, n, quality.wrong_answers)
    each = [majority.majority(p, n, (shares,)) for shares in majority.WRONG_BAND]
    usual = majority.majority(p, n)
    return _band([usual, *each], "wrong answers are assumed: state population.wrong_answers for votes")


def by_verifier(p: Floats, n: int, quality: Quality) -> Floats | Banded:
    """(Q,) chance that the attempt with the highest score is right; an interval where the separation is assumed."""
    own = reward_model.best_of_n(p, n, quality.separation)
    if quality.separation_stated:
        return own
    ends = [reward_model.best_of_n(p, n, d) for d in SEPARATIONS]
    return _band([own, *ends], "the verifier's separation is assumed: state programs.verifier.separation")


def _weighted(p: Floats, n: int, quality: Quality) -> Floats | Banded:
    known = quality.wrong_answers or (majority.USUAL_WRONG,)
    separations = () if quality.separation_stated else SEPARATIONS
    if quality.wrong_answers:
        own, *ends = weighted_votes(p, n, known, (quality.separation, *separations))
        if not ends:
            return own
    else:
        own = weighted_votes(p, n, known, (quality.separation,))[0]
        apart = separations or (quality.separation,)
        answers = ((majority.WRONG_BAND[0],), (majority.WRONG_BAND[-1],))
        ends = [one for w in answers for one in weighted_votes(p, n, w, apart)]
    return _band([own, *ends], "wrong answers or the verifier's separation are assumed")


def _band(cases: list[Floats], why: str) -> Banded:
    """The first case with the ends of all."""
    return Banded(mean=cases[0], low=np.minimum.reduce(cases), high=np.maximum.reduce(cases), why=why)


def verdict_rates(quality: Quality) -> tuple[float, float]:
    """Shares of right and of wrong answers that the verifier accepts.

    Where only scores are known, those above the middle of the two means are accepted: Φ(d/2) and Φ(−d/2).
    """
    if quality.true_accept is not None and quality.false_accept is not None:
        return quality.true_accept, quality.false_accept
    from scipy.special import ndtr

    return float(ndtr(quality.separation / 2)), float(ndtr(-quality.separation / 2))
