"""The Beta law of success over problems, as equally weighted points that strategies map to success probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats

QUANTILES = 2000
"""Equally weighted points of a population."""


@dataclass(frozen=True, slots=True)
class Beta:
    """Problem i is solved by each attempt with probability p_i ~ Beta(a, b), independently given p_i.

    All correlation between attempts is the spread of p: their correlation is 1/(a + b + 1).
    """

    a: float
    b: float
    most: float = 1.0
    """Greatest p: p_i is this times a Beta draw. Below 1 where an attempt fails now and then whatever the problem."""

    @property
    def mean(self) -> float:
        """Mean success probability, pass@1."""
        return self.most * self.a / (self.a + self.b)

    @property
    def concentration(self) -> float:
        """The sum a + b: small where problems are solved nearly always or never, large where all are alike."""
        return self.a + self.b

    def points(self, count: int = QUANTILES) -> Floats:
        """Mean of p within each of `count` bins that hold the same share of problems, ascending.

        Their mean is that of the law, exactly, so that strategies of one attempt have no error of discretisation.

        Args:
            count: bins Q.

        Returns:
            Success probabilities, shape (Q,).
        """
        low = _lowest(self.a, self.b, count, count - count // 2)
        high = _lowest(self.b, self.a, count, count // 2)
        return np.concatenate([low, 1.0 - high[::-1]]) * self.most


def _lowest(a: float, b: float, count: int, first: int) -> Floats:
    """Means of the first bins of `count`: those near 1 are found as those near 0 of the mirrored law, without loss."""
    from scipy.special import betainc, betaincinv

    edges = betaincinv(a, b, np.arange(first + 1) / count)
    means = np.diff(betainc(a + 1.0, b, edges)) * (a / (a + b) * count)
    ascending: Floats = np.clip(means, edges[:-1], edges[1:])
    return ascending


@dataclass(frozen=True, slots=True)
class Laws:
    """Several laws at once: arrays of a and b that broadcast."""

    a: Floats
    b: Floats


def from_mean(mean: float, concentration: float) -> Beta:
    """The law with a mean in (0, 1) and a + b."""
    return Beta(mean * concentration, (1.0 - mean) * concentration)
