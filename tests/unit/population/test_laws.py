"""Beta laws: points, closed forms against each other and against brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest

from windtunnel.population.beta import Beta, from_mean
from windtunnel.population.pass_at_k import all_of_k, all_right, at_least_one, estimate_pass_at_k, pass_at_k
from windtunnel.population.same_problems import pass_at_k_again, solved_in_all

LAWS = [Beta(0.24, 11.2), Beta(0.54, 0.35), Beta(0.05, 0.9), Beta(3.0, 2.0)]


def of_law(law: Beta, value) -> float:
    """∫ value(p) dBeta(p) by quadrature in ln p and ln(1 − p), where the ends are."""
    from scipy.integrate import quad
    from scipy.special import betaln

    log_norm = betaln(law.a, law.b)

    def low(t: float) -> float:
        return value(math.exp(t)) * math.exp(law.a * t + (law.b - 1) * math.log1p(-math.exp(t)) - log_norm)

    def high(t: float) -> float:
        return value(-math.expm1(t)) * math.exp(law.b * t + (law.a - 1) * math.log(-math.expm1(t)) - log_norm)

    half = math.log(0.5)
    return (
        quad(low, -700, half, limit=2000, points=[-50, -10, -3])[0]
        + quad(high, -700, half, limit=2000, points=[-50, -10, -3])[0]
    )


@pytest.mark.parametrize("law", LAWS)
def test_points_have_the_mean_of_the_law_and_ascend(law):
    p = law.points()
    assert p.shape == (2000,) and np.all(np.diff(p) >= 0)
    assert p.mean() == pytest.approx(law.mean, rel=1e-12)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("k", [1, 2, 7, 100])
def test_closed_forms_equal_quadrature(law, k):
    assert float(pass_at_k(law, k)) == pytest.approx(of_law(law, lambda p: 1 - (1 - p) ** k), abs=1e-9)
    assert float(all_of_k(law, k)) == pytest.approx(of_law(law, lambda p: p**k), abs=1e-9)
    product = math.prod((law.a + j) / (law.a + law.b + j) for j in range(k))
    assert float(all_of_k(law, k)) == pytest.approx(product, rel=1e-9)


@pytest.mark.parametrize("law", LAWS)
def test_strategies_on_points_equal_closed_forms(law):
    """Points resolve 1/2,000 of the problems."""
    p = law.points()
    for k in (1, 4, 64, 1000):
        assert at_least_one(p, k).mean() == pytest.approx(float(pass_at_k(law, k)), abs=5e-4)
        assert all_right(p, k).mean() == pytest.approx(float(all_of_k(law, k)), abs=5e-4)


def test_spread_vanishes_at_great_concentration():
    assert float(pass_at_k(from_mean(0.3, 1e7), 5)) == pytest.approx(1 - 0.7**5, abs=1e-5)


def test_more_attempts_are_never_worse():
    law = Beta(0.3, 4.0)
    k = np.array([1, 2, 3, 10, 100, 1e4])
    assert np.all(np.diff(pass_at_k(law, k)) > 0) and np.all(np.diff(all_of_k(law, k)) < 0)


def test_estimate_of_pass_at_k_is_that_of_drawing_without_putting_back():
    c, n = np.array([0, 1, 3, 10]), np.array([10, 10, 10, 10])
    direct = np.mean([1 - math.comb(10 - x, 4) / math.comb(10, 4) for x in c])
    assert estimate_pass_at_k(c, n, 4) == pytest.approx(direct, rel=1e-12)


def test_same_problems_again_against_brute_force():
    rng = np.random.default_rng(0)
    law, c, n = Beta(0.4, 3.0), np.array([0, 0, 2, 5]), np.array([20, 20, 20, 20])
    p = rng.beta(law.a + c, law.b + n - c, size=(200_000, 4))
    again = (1 - (1 - p) ** 7).mean(axis=1)
    mean, sd = pass_at_k_again(law, c, n, 7)
    assert mean == pytest.approx(again.mean(), abs=2e-3) and sd == pytest.approx(again.std(), rel=0.02)
    solved = ((rng.random(p.shape) < 1 - (1 - p) ** 80) | (c > 0)).mean(axis=1)
    mean, sd = solved_in_all(law, c, n, np.full(4, 100))
    assert mean == pytest.approx(solved.mean(), abs=3e-3) and sd == pytest.approx(solved.std(), rel=0.02)
