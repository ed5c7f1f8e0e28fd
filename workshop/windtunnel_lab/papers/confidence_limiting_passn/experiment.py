"""A linear softmax trained for real with cross-entropy and with a loss of N samples."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from windtunnel.arrays import Floats
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment

EXPERIMENT = Experiment(__name__, "confidence-limiting-passn")
fixed = EXPERIMENT.fixed


EVERY = 50
"""Steps between tests."""


def softmax(scores: Floats) -> Floats:
    """Probabilities of rows of scores."""
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))


def pass_at(right: Floats, n: int) -> float:
    """Mean probability that one of n answers is right, of probabilities of the right answer."""
    return float(np.mean(-np.expm1(n * np.log1p(-np.minimum(right, 1.0 - 1e-12)))))


def weight(right: Floats, n: int) -> Floats:
    """What the loss −ln(1 − (1 − p)^n) multiplies the gradient of −ln p by: 1 for n = 1."""
    p = np.clip(right, 1e-12, 1.0 - 1e-12)
    missed = np.exp(n * np.log1p(-p))
    return np.asarray(n * missed / (1.0 - p) * p / (1.0 - missed))


@lru_cache(maxsize=16)
def trained(n: int, seed: int) -> tuple[tuple[float, ...], tuple[float, ...], float]:
    """pass@1 and pass@N over training, and the last mean confidence, on points not trained on.

    Args:
        n: samples of the loss; 1 is cross-entropy.
        seed: of points and noise.
    """
    task, training = fixed("task"), fixed("training")
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((task["classes"], task["features"]))

    def points(count: int) -> tuple[Floats, Any]:
        labels = rng.integers(task["classes"], size=count)
        return centres[labels] + task["noise"] * rng.standard_normal((count, task["features"])), labels

    (x, y), (unseen, truth) = points(task["train"]), points(task["test"])
    weights, once, many = np.zeros((task["features"], task["classes"])), [], []
    rows, tests = np.arange(len(y)), np.arange(len(truth))
    confidence = 0.0
    for step in range(training["steps"] + 1):
        if step % EVERY == 0:
            p = softmax(unseen @ weights)
            once.append(pass_at(p[tests, truth], 1))
            many.append(pass_at(p[tests, truth], fixed("n")))
            confidence = float(np.mean(p.max(axis=1)))
        p = softmax(x @ weights)
        slope = p.copy()
        slope[rows, y] -= 1.0
        slope *= weight(p[rows, y], n)[:, None]
        weights -= training["rate"] / len(y) * (x.T @ slope)
    return tuple(once), tuple(many), confidence


def mean(of: Any, n: int) -> float:
    """Mean of a figure over the seeds."""
    return float(np.mean([of(trained(n, seed)) for seed in fixed("seeds")]))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    n = fixed("n")
    return {
        "crossing/one": lambda _: mean(lambda t: t[0][-1], 1) / mean(lambda t: t[0][-1], n),
        "crossing/many": lambda _: mean(lambda t: t[1][-1], n) / mean(lambda t: t[1][-1], 1),
        "overconfidence": lambda _: mean(lambda t: max(t[1]), 1) / mean(lambda t: t[1][-1], 1),
        "confidence": lambda _: mean(lambda t: t[2], 1) / mean(lambda t: t[2], n),
    }
