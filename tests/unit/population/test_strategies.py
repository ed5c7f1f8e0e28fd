"""What strategies make of success probabilities: closed forms against each other, limits, and brute force."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy.special import ndtr

from windtunnel.population.beta import Beta
from windtunnel.population.checker import first_accepted
from windtunnel.population.greedy import sampled_means
from windtunnel.population.majority import bounds_without_answers, majority
from windtunnel.population.pass_at_k import at_least_one, pass_at_k
from windtunnel.population.revision import FITTED, RUNS, feedback_for, gain, with_revisions
from windtunnel.population.reward_model import (
    best_of_n,
    separation_from_accuracy,
)

P = np.array([0.0, 1e-6, 0.02, 0.3, 0.5, 0.77, 0.999, 1.0])
TRIES = 200_000


# -- selectors


@pytest.mark.parametrize("n", [1, 2, 16, 1024, 100_000])
def test_a_selector_without_separation_is_a_random_choice(n):
    assert best_of_n(P, n, 0.0) == pytest.approx(P, abs=1e-9)


@pytest.mark.parametrize("n", [1, 3, 64])
def test_a_perfect_selector_is_a_perfect_checker(n):
    assert best_of_n(P, n, 40.0) == pytest.approx(at_least_one(P, n), abs=1e-9)


def test_two_attempts_with_a_selector_are_its_auc():
    """Of a right and a wrong answer the right one is chosen with the AUC: p² + 2·p·(1 − p)·AUC."""
    for d in (-0.5, 0.3, 1.2):
        expected = P**2 + 2 * P * (1 - P) * ndtr(d / math.sqrt(2))
        assert best_of_n(P, 2, d) == pytest.approx(expected, abs=1e-9)


def test_selector_against_brute_force():
    rng = np.random.default_rng(0)
    n, d, p = 8, 0.6, 0.3
    right = rng.random((TRIES, n)) < p
    chosen = np.argmax(rng.normal(size=right.shape) + d * right, axis=1)
    assert best_of_n(np.array([p]), n, d)[0] == pytest.approx(right[np.arange(TRIES), chosen].mean(), abs=4e-3)


def test_selectors_are_ordered_by_separation():
    values = np.array([best_of_n(P[2:-1], 32, d) for d in (0.0, 0.4, 0.8, 2.0, 8.0)])
    assert np.all(np.diff(values, axis=0) > 0) and np.all(values[-1] <= at_least_one(P[2:-1], 32) + 1e-12)


def test_separation_is_found_again():
    p = Beta(0.4, 0.5).points(300)
    accuracy = float(best_of_n(p, 64, 0.55).mean())
    assert separation_from_accuracy(p, 64, accuracy) == pytest.approx(0.55, abs=1e-4)
    assert separation_from_accuracy(p, 64, 0.99999) is None


# -- checkers with rates


def test_a_checker_without_errors_is_pass_at_k():
    law = Beta(0.3, 1.2)
    assert first_accepted(P, 1.0, 0.0, 9) == pytest.approx(at_least_one(P, 9), abs=1e-12)
    assert first_accepted(law.points(), 1.0, 0.0, 9).mean() == pytest.approx(float(pass_at_k(law, 9)), abs=5e-4)


def test_a_blind_checker_leaves_pass_1():
    for fallback in ("last",):
        assert first_accepted(P, 0.4, 0.4, 7, fallback) == pytest.approx(P, abs=1e-12)


def test_checker_against_brute_force():
    rng = np.random.default_rng(0)
    p, t, f, n = 0.3, 0.8, 0.2, 5
    right = rng.random((TRIES, n)) < p
    accepted = rng.random((TRIES, n)) < np.where(right, t, f)
    first = np.where(accepted.any(axis=1), accepted.argmax(axis=1), n - 1)
    answer = right[np.arange(TRIES), first]
    one = np.array([p])
    assert first_accepted(one, t, f, n)[0] == pytest.approx(answer.mean(), abs=4e-3)
    assert first_accepted(one, t, f, n, "none")[0] == pytest.approx((answer & accepted.any(axis=1)).mean(), abs=4e-3)


# -- majority


def enumerated(p: float, n: int, shares: tuple[float, ...]) -> float:
    """All outcomes of n votes; the last wrong answer stands for the ones that nobody repeats."""
    rest = 1 - sum(shares)
    kinds = [p, *[w * (1 - p) for w in shares], rest * (1 - p)]
    total = 0.0
    for votes in itertools.product(range(len(kinds)), repeat=n):
        chance = math.prod(kinds[v] for v in votes)
        if chance == 0:
            continue
        counts = Counter(v if v < len(kinds) - 1 else ("alone", at) for at, v in enumerate(votes))
        most = max(counts.values())
        best = [answer for answer, count in counts.items() if count == most]
        total += chance * (0 in best) / len(best)
    return total


@pytest.mark.parametrize("shares", [(), (1.0,), (0.6, 0.3), (0.25, 0.1, 0.05)])
@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_votes_equal_enumeration(shares, n):
    for p in (0.0, 0.1, 0.45, 0.8, 1.0):
        assert majority(np.array([p]), n, (shares,))[0] == pytest.approx(enumerated(p, n, shares), abs=1e-9)


def test_one_vote_is_one_attempt_and_bounds_hold():
    assert majority(P, 1) == pytest.approx(P, abs=1e-9)
    for n in (4, 16, 64):
        low, high = bounds_without_answers(P, n)
        found = majority(P, n)
        assert np.all(low <= found + 1e-9) and np.all(found <= high + 1e-9)
        assert np.all(found <= at_least_one(P, n) + 1e-9)


def test_votes_of_many_follow_the_threshold():
    """With many votes the right answer wins where p > w·(1 − p); counts and the limit agree where they meet."""
    p = np.array([0.1, 0.15, 0.25, 0.4])
    assert majority(p, 20_000) == pytest.approx([0, 0, 1, 1], abs=1e-3)
    assert majority(p, 256) == pytest.approx(majority(p, 257), abs=0.02)


def test_votes_against_brute_force():
    rng = np.random.default_rng(0)
    p, n, shares = 0.25, 24, (0.3, 0.2)
    kinds = np.array([p, 0.3 * (1 - p), 0.2 * (1 - p), 0.5 * (1 - p)])
    counts = rng.multinomial(n, kinds, size=TRIES)
    top = np.maximum(counts[:, 1:3].max(axis=1), np.minimum(counts[:, 3], 1))
    ties = (counts[:, 1:3] == counts[:, :1]).sum(axis=1) + np.where(counts[:, 0] == 1, counts[:, 3], 0)
    won = np.where(counts[:, 0] >= np.maximum(top, 1), 1 / (1 + ties), 0.0)
    assert majority(np.array([p]), n, (shares,))[0] == pytest.approx(won.mean(), abs=4e-3)


# -- revision


def test_revision_of_worth_one_is_another_attempt():
    assert with_revisions(P, 3, 1.0) == pytest.approx(at_least_one(P, 4), abs=1e-12)
    assert with_revisions(P, 0, 7.0) == pytest.approx(P, abs=1e-12)
    first_or_second = P + (1 - P) * gain(P, 5.0)
    assert with_revisions(P, 1, 5.0) == pytest.approx(first_or_second, abs=1e-12)
    assert feedback_for("polyglot-225 of 2025") == (FITTED["polyglot-225"], True)
    assert feedback_for("polyglot-225 qwen3") == (RUNS["polyglot-225 qwen3"], True)  # the longest name that fits
    assert feedback_for("my own")[1] is False


# -- sampling beside greedy


def test_sampling_costs_what_it_is_said_to():
    many = sampled_means(30_000, 100_000, cost=0.5, spread=0.0)
    assert np.median(many) == pytest.approx(1 / (1 + np.exp(0.5) * 7 / 3), rel=0.01)
    assert np.ptp(many) < 0.01


def test_a_greedy_attempt_at_few_problems_says_little():
    few, none = sampled_means(6, 30), sampled_means(0, 30)
    assert np.quantile(few, 0.1) < 0.1 < np.median(few) < 0.2 < np.quantile(few, 0.9)
    assert np.median(none) < 0.01 < np.quantile(none, 0.9) and np.all(np.diff(few) >= 0)
