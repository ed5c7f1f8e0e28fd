"""How far chance alone puts one entry of a table from the law through others of it.

Shares at several k are estimates from the same attempts at the same problems, so they err together: what is left for
an entry k, given those that the law goes through, has the standard deviation √(vᵀΣv/N). Σ is the covariance of one
problem's unbiased estimates (Chen et al. 2021, equation 1) under the law, N the number of problems, and v takes the
entries that the law follows out of entry k, to first order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.population.beta import Beta
from windtunnel.population.pass_at_k import all_of_k, pass_at_k

Kind = Literal["pass_at_k", "all_of_k"]
_POINTS = 400
_STEP = 1e-3


def spread_of_entry(law: Beta, through: Sequence[int], k: int, *, kind: Kind, attempts: int, problems: int) -> float:
    """Standard deviation of the measured share at k about the law through two other measured shares.

    Args:
        law: through the shares at `through`.
        through: the two k that set the law.
        k: of the entry, at most `attempts`.
        kind: what the table holds.
        attempts: attempts at each problem that all entries were estimated from.
        problems: problems N.
    """
    ks = (*through, k)
    estimates = _covariance(law, ks, kind, max(attempts, *ks))
    share: Callable[[Beta, float], Floats] = pass_at_k if kind == "pass_at_k" else all_of_k

    def moved(ln_a: float, ln_b: float) -> Floats:
        other = Beta(law.a * np.exp(ln_a), law.b * np.exp(ln_b), law.most)
        return np.array([float(share(other, float(x))) for x in ks])

    slopes = np.stack(
        [
            (moved(_STEP, 0.0) - moved(-_STEP, 0.0)) / (2 * _STEP),
            (moved(0.0, _STEP) - moved(0.0, -_STEP)) / (2 * _STEP),
        ],
        axis=1,
    )
    followed = np.linalg.lstsq(slopes[:-1].T, slopes[-1], rcond=None)[0]
    weights = np.append(-followed, 1.0)
    return float(np.sqrt(max(weights @ estimates @ weights, 0.0) / problems))


def _covariance(law: Beta, ks: Sequence[int], kind: Kind, attempts: int) -> Floats:
    """Covariance (k, k) of the unbiased estimates of one problem drawn from the law."""
    from scipy.special import gammaln

    def log_choose(n: Floats, k: Floats) -> Floats:
        ways: Floats = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
        return ways

    right = np.arange(attempts + 1, dtype=np.float64)
    total = np.full_like(right, attempts)
    p = np.clip(law.points(_POINTS), 1e-300, 1 - 1e-16)[:, np.newaxis]
    chances = np.exp(log_choose(total, right) + right * np.log(p) + (total - right) * np.log1p(-p)).mean(axis=0)
    chances /= chances.sum()
    left = total - right if kind == "pass_at_k" else right
    rows = []
    for k in ks:
        few = np.full_like(right, k)
        inside = left >= k
        all_same = np.where(inside, np.exp(log_choose(np.maximum(left, few), few) - log_choose(total, few)), 0.0)
        rows.append(1.0 - all_same if kind == "pass_at_k" else all_same)
    values = np.array(rows)
    means = values @ chances
    spread: Floats = (values * chances) @ values.T - np.outer(means, means)
    return spread
