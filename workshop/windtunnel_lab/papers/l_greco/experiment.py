"""Levels of compression by layer: least bytes at the error of one level for all."""

from __future__ import annotations

from itertools import product

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.learning.algorithms._levels import least_bytes
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment

EXPERIMENT = Experiment(__name__, "l-greco")
fixed = EXPERIMENT.fixed


def cases() -> list[tuple[Floats, Floats]]:
    """(errors, bytes) of each layer at each level, from few bytes to many, shape (layers, levels) each."""
    out = []
    for draw in range(fixed("draws")):
        random = np.random.default_rng(draw)
        size = random.uniform(1.0, 10.0, (fixed("layers"), 1))
        nbytes = np.round(size * 100 * 2.0 ** np.arange(fixed("levels")))
        out.append((size * np.sort(random.uniform(0.0, 1.0, nbytes.shape), axis=1)[:, ::-1], nbytes))
    return out


def _chosen(errors: Floats, nbytes: Floats, most: float) -> float:
    """Bytes of the dynamic programme's choice."""
    levels = least_bytes(nbytes, errors, most)
    return float(nbytes[np.arange(len(nbytes)), levels].sum())


def over_the_best() -> float:
    """Bytes of the choice over those of the best of all choices, largest over draws."""
    ratios = []
    for errors, nbytes in cases():
        most = float(errors[:, 1].sum())
        rows = np.arange(len(errors))
        allowed = [
            nbytes[rows, list(levels)].sum()
            for levels in product(range(fixed("levels")), repeat=fixed("layers"))
            if errors[rows, list(levels)].sum() <= most
        ]
        ratios.append(_chosen(errors, nbytes, most) / min(allowed))
    return float(max(ratios))


def over_uniform() -> float:
    """Bytes of the choice over those of one level for all layers at the same error, largest over draws."""
    return max(_chosen(e, b, float(e[:, 1].sum())) / float(b[:, 1].sum()) for e, b in cases())


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "exact": lambda v: over_the_best(),
        "uniform": lambda v: over_uniform(),
    }
