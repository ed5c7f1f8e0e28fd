"""The closed form of success and its stopping point next to sums, searches and drawn attempts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from windtunnel.laws.published.ttspm import reached, saturation
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def summed(p: float, ceiling: float) -> Iterator[tuple[int, float, float]]:
    """Samples, success and the next gain, one sample after the other: what fails stays to be tried."""
    success, left = 0.0, 1.0
    for n in range(fixed("most") + 1):
        yield n, ceiling * success, ceiling * p * left
        success += p * left
        left -= p * left


def exact() -> float:
    """Largest difference of the closed form to the sums."""
    grid = itertools.product(fixed("p"), fixed("ceilings"))
    return max(abs(reached(p, n, c) - told) for p, c in grid for n, told, _ in summed(p, c))


def stops() -> float:
    """Stopping points that differ from a search from zero; those beyond the sums are left out."""
    wrong = 0
    for p, ceiling, threshold in itertools.product(fixed("p"), fixed("ceilings"), fixed("thresholds")):
        found = next((n for n, _, gain in summed(p, ceiling) if gain < threshold), None)
        wrong += found is not None and found != saturation(p, threshold, ceiling)
    return float(wrong)


def drawn() -> float:
    """Largest difference to attempts that were drawn, points."""
    case = fixed("drawn")
    first = np.random.default_rng(case["seed"]).geometric(case["p"], case["problems"])
    return max(100.0 * abs(float(np.mean(first <= n)) - reached(case["p"], n)) for n in case["samples"])


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"exact": lambda _: exact(), "stop": lambda _: stops(), "drawn": lambda _: drawn()}
