"""Strategies by difficulty against best of N for all problems."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.population.beta import from_mean
from windtunnel.population.majority import USUAL_WRONG
from windtunnel.programs.quality import Quality
from windtunnel.programs.strategies.compute_optimal import success
from windtunnel.programs.votes import weighted_vote
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "compute-optimal-tts")
fixed = EXPERIMENT.fixed
WRONG = (USUAL_WRONG,)
"""Histogram of wrong answers where none is known."""


def points(values: Values) -> Floats:
    """Success probabilities of the population."""
    return from_mean(values["pass_1"], values["concentration"]).points(400)


def by_difficulty(values: Values) -> float:
    """Accuracy at n generations of each problem."""
    own = points(values)
    quality = Quality(separation=values["separation"], separation_stated=True, wrong_answers=WRONG, points=own)
    knobs: dict[str, Any] = {
        "n": fixed("n"),
        "selector": "weighted",
        "even": True,
        "bins": fixed("bins"),
        "noise": 0.0,
        "beams": True,
        "steps": fixed("steps"),
    }
    found = success(own, knobs, quality)
    assert isinstance(found, np.ndarray)
    return float(found.mean())


def for_all(values: Values, n: float) -> float:
    """Accuracy of weighted best of n, between whole numbers by the logarithm of n."""
    low = 2 ** math.floor(math.log2(n))
    ends = [float(weighted_vote(points(values), m, WRONG, values["separation"]).mean()) for m in (low, 2 * low)]
    return float(np.interp(math.log2(n), [math.log2(low), math.log2(2 * low)], ends))


def efficiency(values: Values) -> float:
    """Generations of best of N that are as accurate, over those by difficulty; at most those that are tried."""
    wanted = by_difficulty(values)
    low, high = math.log(fixed("n")), math.log(fixed("most"))
    for _ in range(30):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if for_all(values, math.exp(middle)) < wanted else (low, middle)
    return math.exp(high) / float(fixed("n"))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "never_less": lambda v: by_difficulty(v) / for_all(v, fixed("n")) - 1.0,
        "efficiency": efficiency,
    }
