"""Times of unequal workers, round after round, drawn from the law of a scenario."""

from __future__ import annotations

import math

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.machine_memory import require_bytes
from windtunnel.specs.run import StragglersSpec


def worker_times(spec: StragglersSpec, workers: int, rounds: int, seed: int) -> Floats:
    """Seconds of each worker for its share of a step over those of the typical (median) one, shape (rounds, workers).

    A worker takes floor + (1 − floor)·X, X of median 1. A share `persistent` of the variance of ln X, or of its normal
    score, stays with a worker; the rest is drawn anew each round.

    Args:
        spec: The law.
        workers: That a step has.
        rounds: Steps drawn.
        seed: Of the random numbers.
    """
    what = f"{rounds} steps of {workers:,} workers"
    require_bytes(40.0 * rounds * workers, "run.stragglers.workers", what, workers)
    if spec.law == "equal":
        return np.ones((rounds, workers))
    random = np.random.Generator(np.random.Philox(seed))
    own, each = random.standard_normal(workers), random.standard_normal((rounds, workers))
    score = math.sqrt(spec.persistent) * own + math.sqrt(1.0 - spec.persistent) * each
    return np.asarray(spec.floor + (1.0 - spec.floor) * _quantile(spec, score))


def _quantile(spec: StragglersSpec, score: Floats) -> Floats:
    """Values of median 1 at normal scores."""
    if spec.law == "lognormal":
        return np.asarray(np.exp(spec.spread * score))
    from scipy.special import log_ndtr

    tail = log_ndtr(-score)  # logarithm of the probability of a larger value
    if spec.law == "exponential":
        return np.asarray(-tail / math.log(2.0))
    return np.asarray(np.exp(-(tail + math.log(2.0)) * spec.spread))


def with_load(times: Floats, load: float, load_share: float) -> Floats:
    """Times of workers that have `load` times their share of the batch: `load_share` of a time grows with it."""
    return np.asarray(times * (1.0 + load_share * (load - 1.0)))
