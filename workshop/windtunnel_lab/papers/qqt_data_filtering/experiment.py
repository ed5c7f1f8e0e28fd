"""The best number of pools over the budget, for populations of pools drawn at random."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from windtunnel.laws.published.qqt_data_filtering import best
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment

EXPERIMENT = Experiment(__name__, "qqt-data-filtering")
fixed = EXPERIMENT.fixed


@lru_cache(maxsize=1)
def populations() -> list[tuple[list[float], float]]:
    """Utilities, best first, and the half-life of each drawn population."""
    rule = fixed("draws")
    rng = np.random.default_rng(rule["seed"])
    (low, high), (least, most), count = rule["utility"], rule["half_life"], rule["count"]
    utilities = np.sort(rng.uniform(low, high, (count, rule["pools"])), axis=1)[:, ::-1]
    return list(zip(utilities.tolist(), rng.uniform(least, most, count).tolist(), strict=True))


@lru_cache(maxsize=2)
def counts(*, endless: bool = False) -> list[list[int]]:
    """Best number of pools at each budget, for each population."""
    rest = (float(fixed("pool")), float(fixed("scale")), float(fixed("floor")))
    life = 1e12
    return [
        [best(float(seen), b, [life if endless else tau] * len(b), *rest) for seen in fixed("seen")]
        for b, tau in populations()
    ]


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "first": lambda _: float(np.mean([row[0] == 1 for row in counts()])),
        "monotone": lambda _: float(np.mean([row == sorted(row) for row in counts()])),
        "moves": lambda _: float(np.mean([row[-1] > row[0] for row in counts()])),
        "endless": lambda _: float(np.mean([set(row) == {1} for row in counts(endless=True)])),
    }
