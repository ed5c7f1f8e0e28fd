"""More attempts at the very problems that were counted: each problem's own count says more than the law alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.population.beta import Beta


def pass_at_k_again(law: Beta, correct: Floats, samples: Floats, k: int) -> tuple[float, float]:
    """Pass@k of the counted problems: mean and standard deviation, given the law.

    The success probability of a problem with c of n right is Beta(a + c, b + n − c).

    Args:
        law: of the problems that they come from.
        correct: right attempts c of each problem.
        samples: attempts n of each problem.
        k: fresh attempts.
    """
    a, b = law.a + np.asarray(correct, np.float64), law.b + np.asarray(samples - correct, np.float64)
    missed, squared = _all_wrong(a, b, k), _all_wrong(a, b, 2 * k)
    spread = np.sqrt(np.maximum(squared - missed * missed, 0.0).sum()) / len(a)
    return float(np.mean(1.0 - missed)), float(spread)


def solved_in_all(law: Beta, correct: Floats, samples: Floats, total: Floats) -> tuple[float, float]:
    """Share of the counted problems that have a right attempt among `total`, those counted among them.

    Args:
        law: of the problems that they come from.
        correct: right attempts of each problem so far.
        samples: attempts at each problem so far.
        total: attempts at each problem in the end.

    Returns:
        Mean and standard deviation of the share, given the law.
    """
    c = np.asarray(correct, np.float64)
    later = np.maximum(np.asarray(total, np.float64) - samples, 0.0)
    missed = np.where(c > 0, 0.0, _all_wrong(law.a + c, law.b + samples - c, later))
    return float(np.mean(1.0 - missed)), float(np.sqrt((missed * (1.0 - missed)).sum()) / len(c))


def predictive_band(
    laws: Sequence[Beta], of: Callable[[Beta], tuple[float, float]], level: float
) -> tuple[float, float]:
    """Ends of the interval of a share: over the laws that the data allow, and over what each leaves to chance.

    Args:
        laws: equally likely laws.
        of: mean and standard deviation of the share under a law.
        level: probability of the interval.
    """
    from scipy.special import ndtri

    found = np.array([of(law) for law in laws], np.float64)
    chance = ndtri((np.arange(20) + 0.5) / 20)
    values = np.clip(found[:, :1] + found[:, 1:] * chance, 0.0, 1.0)
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _all_wrong(a: Floats, b: Floats, k: float | Floats) -> Floats:
    from scipy.special import betaln

    share: Floats = np.exp(betaln(a, b + k) - betaln(a, b))
    return share
