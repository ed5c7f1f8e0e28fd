"""Aggregates of drawn gradients, some of them wrong, next to the true one."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from windtunnel.runs.gradient_aggregation import flag_mean, krum, mean, median
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "flag-aggregator")
fixed = EXPERIMENT.fixed


@lru_cache(maxsize=64)
def distances(attack: str, wrong: int) -> dict[str, float]:
    """Rule → mean distance of its aggregate to the true gradient, whose length is 1."""
    workers, parameters = fixed("workers"), fixed("parameters")
    found: dict[str, list[float]] = {"mean": [], "median": [], "krum": [], "flag": []}
    for draw in range(fixed("draws")):
        random = np.random.default_rng(draw)
        true = random.standard_normal(parameters)
        true /= np.linalg.norm(true)
        gradients = true + fixed("noise") * random.standard_normal((workers, parameters)) / parameters**0.5
        bad = random.standard_normal((wrong, parameters)) / parameters**0.5
        gradients[:wrong] = fixed("strength") * (bad if attack == "random" else -true + 0.1 * bad)
        aggregates = {
            "mean": mean(gradients),
            "median": median(gradients),
            "krum": krum(gradients, wrong),
            "flag": flag_mean(gradients, fixed("dimensions")),
        }
        for rule, own in aggregates.items():
            found[rule].append(float(np.linalg.norm(own - true)))
    return {rule: float(np.mean(own)) for rule, own in found.items()}


def over_flag(rule: str, values: Values) -> float:
    """Distance of another rule's aggregate over that of the flag mean, smallest over attacks."""
    both = [distances(attack, values["wrong"]) for attack in fixed("attacks")]
    return min(one[rule] / one["flag"] for one in both)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "krum": lambda v: over_flag("krum", v),
        "median": lambda v: over_flag("median", v),
        "mean": lambda v: over_flag("mean", v),
    }
