"""Bayesian search: a Gaussian process over models and logarithms of samples, and the largest expected improvement.

Source: Jones, Schonlau and Welch 1998, Efficient global optimization of expensive black-box functions, for the expected
improvement; a squared-exponential kernel with one length for all coordinates.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from windtunnel.arrays import Floats
from windtunnel_lab.models.programs.stage_searches import STAGE_SEARCHES, StageSearch, Trials
from windtunnel_lab.models.programs.stage_table import StageTable

FIRST = 5
"""Random trials before the process is fitted."""
LENGTH, NOISE = 0.4, 0.1
"""Of the kernel, in widths of a coordinate; variance of a measurement, in the variance of all of them."""


def run(table: StageTable, random: Generator) -> Trials:
    """Random trials, then the choice of the largest expected improvement, until all are measured."""
    where = coordinates(table)
    places: list[int] = []
    scores: list[float] = []
    for place in random.permutation(len(where))[:FIRST]:
        scores.append((yield int(place)))
        places.append(int(place))
    while len(places) < len(where):
        gain = expected_improvement(where, places, np.array(scores))
        gain[places] = -1.0
        place = int(gain.argmax())
        scores.append((yield place))
        places.append(place)


def coordinates(table: StageTable) -> Floats:
    """(C, 2S) coordinates from 0 to 1: places of models and logarithms of samples."""
    columns = []
    for s, stage in enumerate(table.stages):
        columns.append(table.choices[:, s, 0] / max(len(stage.models) - 1, 1))
        logs = np.log(np.array(stage.samples, np.float64))
        columns.append((logs / max(float(logs.max()), 1e-12))[table.choices[:, s, 1]])
    return np.stack(columns, axis=1)


def expected_improvement(where: Floats, places: list[int], scores: Floats) -> Floats:
    """(C,) expected improvement over the best mean so far, in standard deviations of the scores."""
    from scipy.linalg import cho_factor, cho_solve
    from scipy.stats import norm

    scale = float(scores.std()) or 1.0
    values = (scores - scores.mean()) / scale
    known = where[places]
    inner = _kernel(known, known) + NOISE * np.eye(len(places))
    cross = _kernel(where, known)
    factor = cho_factor(inner)
    mean = cross @ cho_solve(factor, values)
    variance = np.maximum(1.0 - (cross * cho_solve(factor, cross.T).T).sum(1), 1e-12)
    spread = np.sqrt(variance)
    z = (mean - mean[places].max()) / spread
    found: Floats = spread * (z * norm.cdf(z) + norm.pdf(z))
    return found


def _kernel(one: Floats, other: Floats) -> Floats:
    apart = ((one[:, None, :] - other[None, :, :]) ** 2).sum(2)
    found: Floats = np.exp(-apart / (2.0 * LENGTH**2))
    return found


STAGE_SEARCHES.add(
    "bayes", StageSearch(id="bayes", summary="Gaussian process with the largest expected improvement", run=run)
)
