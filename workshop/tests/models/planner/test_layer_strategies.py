"""One strategy a layer: equal to enumeration, never over the budget, never worse than the best uniform choice."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from windtunnel.errors import Infeasible
from windtunnel_lab.models.planner.layer_strategies import LayerCosts, assign, priced, uniform


def case(seed: int, layers: int = 5, count: int = 3) -> LayerCosts:
    rng = np.random.default_rng(seed)
    apart = rng.uniform(0.0, 0.5, (count, count))
    np.fill_diagonal(apart, 0.0)
    return LayerCosts(rng.uniform(1, 3, (layers, count)), rng.integers(1, 20, (layers, count)).astype(float), apart)


@pytest.mark.parametrize("seed", range(6))
def test_the_table_finds_what_enumeration_finds(seed: int) -> None:
    costs, budget = case(seed), 60.0
    every = [priced(costs, np.array(x)) for x in product(range(3), repeat=5)]
    best = min(a.seconds for a in every if a.nbytes <= budget)
    found = assign(costs, budget, units=60)  # bytes are whole: no rounding
    assert found.seconds == pytest.approx(best) and found.nbytes <= budget
    assert priced(costs, found.strategy).seconds == pytest.approx(found.seconds)


@pytest.mark.parametrize("seed", range(6))
def test_it_is_never_worse_than_one_strategy_for_all(seed: int) -> None:
    costs = case(seed, layers=12)
    for budget in (90.0, 120.0, 200.0):
        plain = uniform(costs, budget)
        if plain is not None:
            assert assign(costs, budget, units=7).seconds <= plain.seconds


def test_a_budget_below_the_least_is_refused() -> None:
    with pytest.raises(Infeasible, match="at least"):
        assign(case(0), 1.0)
