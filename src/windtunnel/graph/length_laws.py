"""Laws that lengths are drawn from: prompts and answers of requests, documents of a training batch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.random import Generator

from windtunnel.arrays import Floats
from windtunnel.specs.lengths import Lengths

NO_SPREAD = 1e-9
"""Below it a Gamma law is its mean: its shape cv^-2 leaves the range of numbers."""


def fixed(spec: Lengths, rng: Generator, count: int) -> Floats:
    """All as long as the mean."""
    return np.full(count, _mean(spec))


def uniform(spec: Lengths, rng: Generator, count: int) -> Floats:
    """Every length from min to max alike."""
    assert spec.min is not None and spec.max is not None
    return rng.integers(spec.min, spec.max, count, endpoint=True).astype(np.float64)


def normal(spec: Lengths, rng: Generator, count: int) -> Floats:
    """Bell of standard deviation cv·mean."""
    return rng.standard_normal(count) * (spec.cv * _mean(spec)) + _mean(spec)


def lognormal(spec: Lengths, rng: Generator, count: int) -> Floats:
    """Logarithm normal, with the mean and standard deviation asked for."""
    variance = np.log1p(spec.cv**2)
    drawn: Floats = np.exp(rng.standard_normal(count) * np.sqrt(variance) + (np.log(_mean(spec)) - variance / 2))
    return drawn


def gamma(spec: Lengths, rng: Generator, count: int) -> Floats:
    """Shape 1/cv²."""
    if spec.cv < NO_SPREAD:
        return fixed(spec, rng, count)
    return rng.standard_gamma(spec.cv**-2, count) * (_mean(spec) * spec.cv**2)


def zipf(spec: Lengths, rng: Generator, count: int) -> Floats:
    """Weights length^−θ from min to max; θ is what gives the mean."""
    assert spec.max is not None
    lengths = np.arange(spec.min or 1, spec.max + 1, dtype=np.float64)
    logs = np.log(lengths / lengths[0])
    low, high, theta = 0.0, 64.0, 1.0  # the mean falls from the middle to the shortest length as θ grows
    for _ in range(100):
        weights = np.exp(-theta * logs)
        weights /= weights.sum()
        mean, log_mean = weights @ lengths, weights @ logs
        if abs(mean - _mean(spec)) <= 1e-9 * _mean(spec):
            break
        low, high = (theta, high) if mean > _mean(spec) else (low, theta)
        slope = (weights * lengths) @ logs - mean * log_mean  # Newton's step, inside of what is known
        theta += (mean - _mean(spec)) / slope if slope > 0 else 0.0
        theta = theta if low < theta < high else (low + high) / 2
    steps = weights.cumsum()
    drawn: Floats = lengths[
        np.searchsorted(steps, rng.random(count) * steps[-1], side="right").clip(max=len(steps) - 1)
    ]
    return drawn


def empirical(spec: Lengths, rng: Generator, count: int) -> Floats:
    """Values given, with replacement."""
    return rng.choice(np.asarray(spec.values, np.float64), count)


LAWS: dict[str, Callable[[Lengths, Generator, int], Floats]] = {
    "fixed": fixed,
    "uniform": uniform,
    "normal": normal,
    "lognormal": lognormal,
    "gamma": gamma,
    "zipf": zipf,
    "empirical": empirical,
}


def _mean(spec: Lengths) -> float:
    assert spec.mean is not None
    return spec.mean
