"""Tables that choose a temperature for each k, as code benchmarks do: low for pass@1, high for pass@100.

Raising the temperature makes problems more alike and attempts worse. In terms of v ≥ 0, ln of how far a + b has risen
above that of the temperature which is best for pass@1:

    a + b = c·e^v,   logit of the mean = logit of the best mean − `COST`·v²,

quadratic because pass@1 is at its best there. An entry k of such a table is the greatest pass@k over v: pass@1 has
v = 0, and a second entry sets c, so that two entries give the others. A share `BROKEN` of problems is passed by no
attempt: their tests refuse right programs, and no temperature helps.

`COST` was fitted on HumanEval's pass@100 of eight models of 110 million to 16 billion parameters, where the law of one
temperature is too low by 19 %. `BROKEN` was fitted on tables of nine later models (github Xwin-LM/Xwin-LM,
Xwin-Coder/HumanEval and Xwin-Coder/MBPP).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from windtunnel.population.beta import Laws
from windtunnel.population.pass_at_k import pass_at_k

COST = 0.14
"""Fall of the logit of pass@1 when ln (a + b) rises by 1 and, after that, with its square."""
BROKEN: dict[str, float] = {"humaneval": 0.04, "mbpp": 0.12}
"""Share of problems that no attempt passes, by benchmark."""
ERROR = 0.14
"""Standard deviation of the logit of a predicted entry: models left out one by one, and those of other tables."""
_RISE = np.linspace(0.0, 8.0, 401)


@dataclass(frozen=True, slots=True)
class BestTemperatures:
    """Success at the best temperature for each k."""

    best_mean: float
    """pass@1 at the temperature that is best for it, of problems that can be passed."""
    concentration: float
    """a + b at that temperature."""
    broken: float
    """Share of problems that no attempt passes."""
    cost: float = COST

    def pass_at_k(self, k: float) -> float:
        """Share of all problems that one of k attempts solves, at the temperature that is best for k."""
        return (1.0 - self.broken) * _greatest(self.best_mean, float(np.log(self.concentration)), k, self.cost)


def chooses(task: str) -> str | None:
    """The benchmark whose published tables choose a temperature for each k; None for other tasks."""
    name = task.casefold().replace("_", "").replace("-", "")
    return next((benchmark for benchmark in BROKEN if name.startswith(benchmark)), None)


def fit_best_temperatures(table: Mapping[int, float], benchmark: str, cost: float = COST) -> BestTemperatures | None:
    """What two entries of a table say, of which the first is pass@1.

    Args:
        table: share of problems by k: 1 and another.
        benchmark: a key of `BROKEN`.
        cost: of a higher temperature.

    Returns:
        None where no law of this form goes through both: the second entry is no better than pass@1 allows.
    """
    from scipy.optimize import brentq

    if 1 not in table or len(table) < 2:
        return None
    k = min(x for x in table if x != 1)
    broken = min(BROKEN[benchmark], (1.0 - max(table.values())) / 2)
    mean, other = (table[x] / (1.0 - broken) for x in (1, k))
    if not 0 < mean < other < 1:
        return None

    def off(ln_concentration: float) -> float:
        return _greatest(mean, ln_concentration, k, cost) - other

    low, high = -9.0, 8.0
    if off(low) >= 0 or off(high) <= 0:
        return None
    return BestTemperatures(mean, float(np.exp(brentq(off, low, high, xtol=1e-6))), broken, cost)


def _greatest(mean: float, ln_concentration: float, k: float, cost: float) -> float:
    """The greatest pass@k over temperatures."""
    from scipy.special import expit, logit

    means = np.maximum(expit(logit(mean) - cost * _RISE**2), 1e-12)
    total = np.exp(ln_concentration + _RISE)
    return float(np.max(pass_at_k(Laws(means * total, (1.0 - means) * total), k)))
