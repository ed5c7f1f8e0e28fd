"""How long right and wrong answers are, and what a budget of tokens leaves of both.

Tokens of an attempt are lognormal, with laws of their own for right and wrong ones. A budget cuts attempts off: one
that would have been right but is not finished counts as wrong.
"""

from __future__ import annotations

import math

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.specs.population import AnswerLengths, LengthLaw


def finished(law: LengthLaw, budget: Floats | float) -> Floats:
    """Share of attempts that end within a budget of tokens."""
    from scipy.special import ndtr

    tokens = np.asarray(budget, np.float64)
    if law.sigma == 0:
        return np.asarray(tokens >= law.mean, np.float64)
    with np.errstate(divide="ignore"):
        share: Floats = np.asarray(ndtr((np.log(tokens) - _mu(law)) / law.sigma), np.float64)
    return share


def mean_tokens_within(law: LengthLaw, budget: float) -> float:
    """Mean of min(tokens, budget): what attempts under a cap cost."""
    from scipy.special import ndtr

    if law.sigma == 0:
        return min(law.mean, budget)
    z = (math.log(budget) - _mu(law)) / law.sigma
    return float(law.mean * ndtr(z - law.sigma) + budget * ndtr(-z))


def accuracy_within(p: Floats, lengths: AnswerLengths, budget: float) -> Floats:
    """Probability that an attempt is right and ends within a budget: p·P(tokens of right attempts ≤ budget), (Q,)."""
    right: Floats = np.asarray(p, np.float64) * float(finished(lengths.correct, budget))
    return right


def right_given_finished(p: Floats, lengths: AnswerLengths, budget: float) -> Floats:
    """Probability that an attempt is right given that it has ended within a budget (Q,): short answers are better."""
    p = np.asarray(p, np.float64)
    right = p * float(finished(lengths.correct, budget))
    ended = right + (1.0 - p) * float(finished(lengths.wrong, budget))
    with np.errstate(divide="ignore", invalid="ignore"):
        share: Floats = np.where(ended > 0, right / ended, 0.0)
    return share


def tokens_within(p: Floats, lengths: AnswerLengths, budget: float) -> Floats:
    """Mean tokens of an attempt under a cap, of problems with success probabilities p (Q,)."""
    p = np.asarray(p, np.float64)
    tokens: Floats = p * mean_tokens_within(lengths.correct, budget) + (1.0 - p) * mean_tokens_within(
        lengths.wrong, budget
    )
    return tokens


def hazard(law: LengthLaw, tokens: Floats) -> Floats:
    """Rate, per token, at which attempts end that have not ended yet: density over what is left."""
    from scipy.special import log_ndtr

    t = np.asarray(tokens, np.float64)
    z = (np.log(t) - _mu(law)) / law.sigma
    log_density = -0.5 * z * z - np.log(t * law.sigma * math.sqrt(2 * math.pi))
    rate: Floats = np.exp(log_density - log_ndtr(-z))
    return rate


def _mu(law: LengthLaw) -> float:
    """Mean of the logarithm."""
    return math.log(law.mean) - 0.5 * law.sigma**2
