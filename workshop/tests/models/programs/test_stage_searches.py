"""Tables of stages and searches over them: accuracy by hand, budgets kept, the best found by every search."""

from __future__ import annotations

import numpy as np
import pytest

from windtunnel.errors import Infeasible
from windtunnel.population.beta import from_mean
from windtunnel.population.reward_model import best_of_n
from windtunnel_lab.models.programs.stage_searches import STAGE_SEARCHES, mean_trials, trials_until
from windtunnel_lab.models.programs.stage_searches.bayes import coordinates, expected_improvement
from windtunnel_lab.models.programs.stage_table import Stage, StageTable, stage_table

SAMPLES = (1, 2, 4, 8)


def stage(name: str, means: tuple[float, ...], prices: tuple[float, ...]) -> Stage:
    """Models of some pass@1 that cost so much a sample, and as much once."""
    return Stage(
        name=name,
        models=tuple(f"m{i}" for i in range(len(means))),
        points=tuple(from_mean(m, 0.9).points(50) for m in means),
        samples=SAMPLES,
        cost=np.array([[price * (1 + n) for n in SAMPLES] for price in prices]),
    )


def two(budget: float, carried: float = 0.3) -> StageTable:
    stages = [stage("a", (0.3, 0.5), (1.0, 4.0)), stage("b", (0.4, 0.6, 0.7), (1.0, 3.0, 10.0))]
    return stage_table(stages, budget=budget, separation=0.6, carried=carried)


def test_accuracy_of_a_choice_by_hand() -> None:
    table = two(1e9)
    assert len(table.accuracy) == 2 * 4 * 3 * 4
    place = table.index()[(1, 2), (0, 3)]
    first, second = (from_mean(m, 0.9).points(50) for m in (0.5, 0.4))
    right = best_of_n(first, 4, 0.6)
    by_hand = right * best_of_n(second, 8, 0.6) + (1 - right) * best_of_n(0.3 * second, 8, 0.6)
    assert table.accuracy[place] == pytest.approx(by_hand.mean())
    assert table.cost[place] == pytest.approx(4.0 * 5 + 1.0 * 9)


def test_a_budget_is_kept_and_more_of_it_is_never_worse() -> None:
    tables = [two(budget) for budget in (4.0, 10.0, 40.0, 1e9)]
    for table in tables:
        assert table.cost.max() <= table.budget * (1 + 1e-9)
    best = [float(table.accuracy.max()) for table in tables]
    assert best == sorted(best) and best[0] < best[-1]
    with pytest.raises(Infeasible, match=r"budget = 3: the cheapest choice of every stage costs 4"):
        two(3.0)


def test_what_is_carried_ties_stages_together() -> None:
    free, tied = two(1e9, carried=1.0), two(1e9, carried=0.0)
    places = [free.index()[(m, 0), (0, 0)] for m in (0, 1)]
    assert free.accuracy[places[0]] == pytest.approx(free.accuracy[places[1]])  # the first stage does not matter
    assert tied.accuracy[places[0]] < tied.accuracy[places[1]]


@pytest.mark.parametrize("id", STAGE_SEARCHES.list())
def test_every_search_ends_at_the_best_of_the_table(id: str) -> None:
    table = two(30.0)
    for seed in range(5):
        random = np.random.default_rng(seed)
        count = trials_until(table, STAGE_SEARCHES.get(id), near=1.0, examples=0, random=random)
        assert 1 <= count <= len(table.accuracy)
        noisy = trials_until(table, STAGE_SEARCHES.get(id), near=1.0, examples=20, random=random)
        assert 1 <= noisy <= len(table.accuracy)


def test_random_search_needs_half_of_the_table_on_average() -> None:
    table = two(30.0)
    mean = mean_trials(table, "random", near=1.0, examples=0, repeats=800)
    count, good = len(table.accuracy), int((table.accuracy >= table.accuracy.max()).sum())
    assert mean == pytest.approx((count + 1) / (good + 1), rel=0.1)


def test_equal_seeds_search_alike() -> None:
    table = two(30.0)
    for id in STAGE_SEARCHES.list():
        one, other = (mean_trials(table, id, near=0.99, examples=30, repeats=5, seed=3) for _ in range(2))
        assert one == other


@pytest.mark.slow
def test_searches_that_look_beat_the_random_one_on_a_smooth_table() -> None:
    stages = [stage(n, (0.3, 0.4, 0.5), (1.0, 3.0, 9.0)) for n in ("a", "b", "c")]
    table = stage_table(stages, budget=150.0, separation=0.6, carried=0.3)
    random = mean_trials(table, "random", near=0.995, examples=0, repeats=30)
    for id in ("bayes", "guided"):
        assert mean_trials(table, id, near=0.995, examples=0, repeats=10) < random


def test_improvement_is_expected_where_nothing_was_measured() -> None:
    table = two(1e9)
    where = coordinates(table)
    assert where.min() == 0.0 and where.max() == 1.0
    gain = expected_improvement(where, [0, 1, 2], np.array([0.5, 0.52, 0.51]))
    assert gain.min() >= 0.0 and gain[len(where) - 1] > gain[0]
