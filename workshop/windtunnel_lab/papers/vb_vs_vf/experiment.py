"""A toy of solutions with rewards over a horizon: cloning picks any, a learned verifier the best of some."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from windtunnel.arrays import Floats
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment

EXPERIMENT = Experiment(__name__, "vb-vs-vf")
fixed = EXPERIMENT.fixed


def features(rng: np.random.Generator, horizon: int, problems: int, candidates: int) -> Floats:
    """Features of whole solutions, summed over their steps: [problems, candidates, features].

    Each step adds 1 or −1 to each feature, so that a sum has the horizon as variance.
    """
    shape = (problems, candidates, fixed("features"))
    return (2.0 * rng.binomial(horizon, 0.5, shape) - horizon).astype(np.float64)


@lru_cache(maxsize=64)
def gap(horizon: int, problems: int | None) -> float:
    """Mean reward of a verifier's choice over that of a random one.

    Args:
        horizon: steps of a solution.
        problems: that the verifier learned from; None: it knows the rewards.
    """
    rng = np.random.default_rng([fixed("seed"), horizon, problems or 0])
    weights = np.ones(fixed("features")) / np.sqrt(fixed("features"))
    known = weights
    if problems is not None:
        seen = features(rng, horizon, problems, 1)[:, 0]
        rewards = seen @ weights
        measured = rewards + fixed("noise") * np.sqrt(horizon) * rng.standard_normal(problems)
        gram = seen.T @ seen + horizon * np.eye(len(weights))
        known = np.linalg.solve(gram, seen.T @ measured)
    shown = features(rng, horizon, fixed("trials"), fixed("candidates"))
    rewards = shown @ weights
    chosen = np.argmax(shown @ known, axis=1)
    return float(np.mean(rewards[np.arange(len(chosen)), chosen]) - np.mean(rewards))


def exponent(problems: int | None) -> float:
    """Slope of the logarithm of the gap over that of the horizon."""
    horizons = fixed("horizons")
    return float(np.polyfit(np.log(horizons), np.log([gap(h, problems) for h in horizons]), 1)[0])


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "slope": lambda _: exponent(None),
        "learned": lambda v: exponent(int(v["problems"])),
        "data": lambda _: gap(256, 256) / gap(256, 16),
    }
