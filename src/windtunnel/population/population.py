"""A population as strategies read it: points of success probability, laws that the data allow, answers and lengths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.population.accuracy import LEVEL, Accuracy
from windtunnel.population.beta import QUANTILES, Beta
from windtunnel.population.fit import Fit
from windtunnel.specs.population import AnswerLengths, OnePopulation

Strategy = Callable[[Floats], Floats]
"""From success probabilities of single attempts (Q,) to those of what a strategy answers (Q,)."""
_EDGES = 801


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """Success over problems of one (model, task, temperature, length cap)."""

    fit: Fit
    temperature: float | None = None
    max_tokens: int | None = None
    wrong_answers: tuple[tuple[float, ...], ...] = ()
    """Histograms of wrong answers, equally likely over problems; empty: not known."""
    lengths: AnswerLengths | None = None
    name: str = field(default="")

    @property
    def law(self) -> Beta:
        """The Beta law that figures are stated of."""
        return self.fit.law

    def points(self, count: int = QUANTILES) -> Floats:
        """Equally weighted success probabilities (Q,), ascending; their mean is pass@1."""
        return self.law.points(count)

    def accuracy(self, strategy: Strategy, level: float = LEVEL) -> Accuracy:
        """Mean success of a strategy over the population, with the interval of the fit.

        Args:
            strategy: success probability of a problem by that of its single attempts; called on arrays.
            level: probability of the interval.
        """
        mean = float(np.mean(strategy(self.points())))
        low, high = mean, mean
        if self.fit.draws:
            found = over_laws(self.fit.draws, strategy)
            low, high = (float(x) for x in np.quantile(found, [(1 - level) / 2, (1 + level) / 2]))
        return Accuracy(
            mean=mean, low=min(low, mean), high=max(high, mean), level=level, grade=self.fit.grade, why=self.fit.why
        )


def over_laws(laws: tuple[Beta, ...], strategy: Strategy) -> Floats:
    """Mean success under each law: the strategy is called once, on bins between fixed edges of p.

    Edges are even in the logit from 1e-8 to 1 − 1e-8; each law gives the bins between them its weights.
    """
    from scipy.special import betainc, expit

    edges = expit(np.linspace(-18.5, 18.5, _EDGES))
    middles = np.concatenate(([edges[0] / 2], np.sqrt(edges[1:] * edges[:-1]), [1.0]))
    upper = edges[1:] > 0.5
    middles[1:-1][upper] = 1.0 - np.sqrt((1 - edges[1:][upper]) * (1 - edges[:-1][upper]))
    value = np.asarray(strategy(middles), np.float64)
    a = np.array([law.a for law in laws])[:, np.newaxis]
    b = np.array([law.b for law in laws])[:, np.newaxis]
    most = np.array([law.most for law in laws])[:, np.newaxis]
    below = np.concatenate([np.zeros_like(a), betainc(a, b, np.minimum(edges / most, 1.0)), np.ones_like(a)], axis=1)
    means: Floats = np.diff(below, axis=1) @ value
    return means


def stated_draws(spec: OnePopulation, count: int) -> tuple[Beta, ...]:
    """Laws around a stated (a, b) by the errors next to it, even in probability; empty where none are stated."""
    from scipy.special import ndtri

    beta = spec.beta
    if beta is None or (beta.log_sd_a == 0 and beta.log_sd_b == 0):
        return ()
    first = ndtri((np.arange(count) + 0.5) / count)
    second = ndtri((np.arange(count) * 0.6180339887498949 + 0.5) % 1.0)  # even in both: a golden-ratio lattice
    across = np.sqrt(1 - beta.log_correlation**2)
    a = beta.a * np.exp(beta.log_sd_a * first)
    b = beta.b * np.exp(beta.log_sd_b * (beta.log_correlation * first + across * second))
    return tuple(Beta(float(x), float(y)) for x, y in zip(a, b, strict=True))
