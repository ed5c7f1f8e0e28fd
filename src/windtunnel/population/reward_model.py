"""Best of n by a score: a reward model that scores right answers d standard deviations above wrong ones.

Scores are normal with unit variance, about d for right answers and about 0 for wrong ones; the highest wins. What a
selector is worth is then one number, d, which its AUC on pairs of a right and a wrong answer gives: AUC = Φ(d/√2).
"""

from __future__ import annotations

import math

import numpy as np

from windtunnel.arrays import Floats

REWARD_MODEL_SEPARATION, REWARD_MODEL_SPREAD = 0.42, 0.13
"""Separation of trained reward models of 7 to 8B on mathematics, and its standard deviation between them and between
tasks, under the spread of p that pass@1 alone is given (`population.fit_tables.fit_pass_1`); eight rows, AUC 0.62."""
_STEP = 0.03
"""Of the trapezoid over scores, in standard deviations: its error is below 1e-12 for smooth integrands."""
_TAIL = 9.0
_CHUNK = 2_000_000
_MOST_SEPARATION = 40.0


def best_of_n(p: Floats, n: float, separation: float) -> Floats:
    """Probability that the best scored of n attempts is right.

    It is ∫ n·p·φ(x − d)·(p·Φ(x − d) + (1 − p)·Φ(x))^(n − 1) dx: one attempt is right, has score x, and all others are
    below. With d = 0 this is p for all n; with d → ∞ it is 1 − (1 − p)^n.

    Args:
        p: success probability of a single attempt, shape (Q,).
        n: attempts, 1 or more.
        separation: d; below 0 the selector prefers wrong answers.

    Returns:
        Success probability of the chosen answer, shape (Q,).
    """
    from scipy.special import ndtr

    d = float(np.clip(separation, -_MOST_SEPARATION, _MOST_SEPARATION))
    x = np.arange(min(0.0, d) - _TAIL, max(0.0, d) + _TAIL + _STEP, _STEP)
    density = np.exp(-0.5 * (x - d) ** 2) * (_STEP / math.sqrt(2 * math.pi))
    right, wrong = ndtr(x - d), ndtr(x)
    flat = np.atleast_1d(np.asarray(p, np.float64)).ravel()
    out = np.empty_like(flat)
    rows = max(1, _CHUNK // len(x))
    for first in range(0, len(flat), rows):
        part = flat[first : first + rows, np.newaxis]
        below = part * right + (1.0 - part) * wrong
        with np.errstate(divide="ignore"):
            log = np.log(below) * (n - 1) if n > 1 else np.zeros_like(below)
        out[first : first + rows] = n * part[:, 0] * (np.exp(log) @ density)
    found: Floats = np.clip(out, 0.0, 1.0).reshape(np.shape(p))
    return found


def separation_from_accuracy(p: Floats, n: float, accuracy: float) -> float | None:
    """The separation at which best of n has this mean success over the population; None where none has.

    It depends on the spread of p as much as on the selector: report both.

    Args:
        p: equally weighted success probabilities, shape (Q,).
        n: attempts.
        accuracy: mean success of the chosen answers.
    """
    from scipy.optimize import brentq

    def off(d: float) -> float:
        return float(np.mean(best_of_n(p, n, d))) - accuracy

    low, high = -6.0, 12.0
    return float(brentq(off, low, high, xtol=1e-6)) if off(low) < 0 < off(high) else None
