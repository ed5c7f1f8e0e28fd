"""What an issue costs, what sharing a context saves, and what the selection must be worth."""

from __future__ import annotations

import math
from typing import Any

from scipy.optimize import brentq

from windtunnel.population.beta import from_mean
from windtunnel.population.pass_at_k import at_least_one
from windtunnel.population.reward_model import separation_from_accuracy
from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.claims import Measure, results
from windtunnel_lab.reproduce.settings import Values, load

TITLE = "CodeMonkeys: test-time compute for software engineering (Ehrlich et al. 2025)"


def setting() -> Values:
    """The settings and claims, as written in `setting.yaml`."""
    return load(__package__ or "windtunnel_lab.papers.codemonkeys")


def fixed(name: str) -> Any:
    """One value that the paper gives or a rule fixes."""
    return setting()["fixed"][name]["value"]


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


def run() -> list[ClaimResult]:
    """All claims of the paper."""
    return results(setting(), "codemonkeys", measures())
