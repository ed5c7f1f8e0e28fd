"""What an issue costs, what sharing a context saves, and what the selection must be worth."""

from __future__ import annotations

import math

from scipy.optimize import brentq

from windtunnel.population.beta import from_mean
from windtunnel.population.pass_at_k import at_least_one
from windtunnel.population.reward_model import separation_from_accuracy
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def context() -> float:
    """Price of the shared context over that without a cache."""
    n = fixed("trajectories")
    return float((fixed("written_usd") + (n - 1) * fixed("read_usd")) / (n * fixed("prompt_usd")))


def selector(values: Values) -> float:
    """Separation at which the chosen ones of a population with the coverage are right as often as published."""
    n, spread = fixed("trajectories"), values["concentration"]

    def off(mean: float) -> float:
        return float(at_least_one(from_mean(mean, spread).points(400), n).mean()) - float(fixed("coverage"))

    points = from_mean(float(brentq(off, 0.01, 0.95)), spread).points(400)
    found = separation_from_accuracy(points, n, fixed("resolved"))
    return math.nan if found is None else found


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "an_issue": lambda v: fixed("bill") / fixed("issues"),
        "context": lambda v: context(),
        "selector": selector,
    }
