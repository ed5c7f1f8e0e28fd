"""Solutions and verifications at equal compute, against votes."""

from __future__ import annotations

import math

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.population.beta import from_mean
from windtunnel.population.majority import majority
from windtunnel.programs.strategies.solve_verify import best_verified
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "solve-vs-verify")
fixed = EXPERIMENT.fixed


_DIGITS = 9
"""Slopes of splits on a grid are often equal: what is left of their difference is rounding."""
Split = tuple[float, float, int, int]
"""Compute in solutions, accuracy, S, V."""


def points(values: Values) -> Floats:
    """Success probabilities of the population."""
    return from_mean(values["pass_1"], values["concentration"]).points(300)


def splits(values: Values) -> list[Split]:
    """All splits, by rising compute."""
    own, rates = points(values), (values["true_accept"], values["false_accept"])
    out = []
    for s in fixed("solutions"):
        for v in fixed("verifications"):
            compute = s * (1 + fixed("tokens_of_a_verification") * v)
            accuracy = float(best_verified(own, s, v, rates, values["correlation"]).mean())
            out.append((compute, accuracy, s, v))
    return sorted(out)


def crossover(values: Values) -> float:
    """Least compute that matches the vote, over the vote's; infinite where no split does."""
    n = fixed("matched")
    wanted = float(majority(points(values), n).mean())
    reached = [compute for compute, accuracy, _, _ in splits(values) if accuracy >= wanted]
    return float(min(reached, default=math.inf) / n)


def best_at(budgets: list[float], known: list[Split]) -> list[Split]:
    """The most accurate split within each budget; of equals, the cheapest."""
    return [max((x for x in known if x[0] <= budget), key=lambda x: (x[1], -x[0])) for budget in budgets]


def exponent(values: Values) -> float:
    """Slope of log S less that of log V over log compute, of the best splits at budgets a factor of two apart."""
    known = splits(values)
    first, last = fixed("budgets")
    budgets = [2.0**k for k in range(first, last + 1)]
    _, _, s, v = (np.log(np.array(column, np.float64)) for column in zip(*best_at(budgets, known), strict=True))
    compute = np.log(np.array(budgets))
    difference = float(np.polyfit(compute, s, 1)[0] - np.polyfit(compute, v, 1)[0])
    return round(difference, _DIGITS)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"crossover": crossover, "exponent": exponent}
