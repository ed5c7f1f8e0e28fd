"""Samples with a perfect checker, and tasks that have to succeed every time.

For one problem of success probability p the shares are 1 − (1 − p)^k and p^k; over a Beta law they have closed forms.
"""

from __future__ import annotations

import math

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.population.beta import Beta, Laws


def at_least_one(p: Floats, k: float | Floats) -> Floats:
    """Probability that one of k attempts is right, of problems with success probabilities p (Q,)."""
    with np.errstate(divide="ignore"):
        missed: Floats = np.exp(k * np.log1p(-np.asarray(p, np.float64)))
    return 1.0 - missed


def all_right(p: Floats, k: float | Floats) -> Floats:
    """Probability that all of k attempts are right (pass^k), of problems with success probabilities p (Q,)."""
    return np.asarray(p, np.float64) ** k


def pass_at_k(law: Beta | Laws, k: float | Floats) -> Floats:
    """1 − B(a, b + k)/B(a, b): share of problems that one of k attempts solves, for each k."""
    from scipy.special import betaln

    if isinstance(law, Beta) and law.most < 1:
        points = law.points()
        each = [at_least_one(points, float(x)).mean() for x in np.atleast_1d(np.asarray(k, np.float64)).ravel()]
        return np.asarray(each, np.float64).reshape(np.shape(k))
    share: Floats = -np.expm1(betaln(law.a, law.b + np.asarray(k, np.float64)) - betaln(law.a, law.b))
    return share


def all_of_k(law: Beta | Laws, k: float | Floats) -> Floats:
    """Π (a + j)/(a + b + j) over j < k: share of problems that all of k attempts solve, for each k."""
    from scipy.special import betaln

    most = law.most if isinstance(law, Beta) else 1.0
    share: Floats = np.exp(betaln(law.a + np.asarray(k, np.float64), law.b) - betaln(law.a, law.b)) * most**k
    return share


def estimate_pass_at_k(correct: Floats, samples: Floats, k: int) -> float:
    """Unbiased pass@k of counted successes: the mean of 1 − C(n − c, k)/C(n, k) (Chen et al. 2021, equation 1).

    Args:
        correct: right attempts c of each problem.
        samples: attempts n of each problem; at least k.
        k: attempts.
    """
    from scipy.special import gammaln

    c, n = np.asarray(correct, np.float64), np.asarray(samples, np.float64)
    left = n - c
    with np.errstate(invalid="ignore"):
        log = gammaln(left + 1) - gammaln(np.maximum(left - k, 0) + 1) - gammaln(n + 1) + gammaln(n - k + 1)
    missed = np.where(left >= k, np.exp(log), 0.0)
    return float(math.fsum(1.0 - missed) / len(c))
