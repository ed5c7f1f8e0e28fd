"""Laws from counts and tables: what is recovered, what is refused, and the bars on measured rows."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from reasoning_rows import attempts, counts, rows

from windtunnel.errors import BadInput
from windtunnel.population.beta import Beta
from windtunnel.population.fit import fit_counts
from windtunnel.population.fit_tables import SPOILED, fit_all_of_k, fit_pass_1, fit_pass_at_k
from windtunnel.population.pass_at_k import all_of_k, estimate_pass_at_k, pass_at_k
from windtunnel.population.same_problems import pass_at_k_again, predictive_band, solved_in_all


def drawn(law: Beta, problems: int, samples: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    return rng.binomial(samples, rng.beta(law.a, law.b, problems)), np.full(problems, samples)


@pytest.mark.parametrize("law", [Beta(0.3, 3.0), Beta(0.5, 0.4), Beta(2.0, 5.0)])
def test_a_law_is_found_again(law):
    found = fit_counts(*drawn(law, 3000, 100))
    assert found.law.a == pytest.approx(law.a, rel=0.1) and found.law.b == pytest.approx(law.b, rel=0.1)
    assert found.grade == "fitted" and not found.notes
    share = [float(pass_at_k(x, 1000)) for x in found.draws]
    assert min(share) < float(pass_at_k(law, 1000)) < max(share)


def test_few_attempts_widen_the_band_and_say_so():
    correct, samples = drawn(Beta(0.3, 6.0), 128, 1600)
    width = {}
    for few in (16, 64, 1600):
        found = fit_counts(*drawn(Beta(0.3, 6.0), 128, few))
        shares = [float(pass_at_k(x, 10_000)) for x in found.draws]
        width[few] = np.quantile(shares, 0.95) - np.quantile(shares, 0.05)
        assert bool(found.notes) == (few < 100)
    assert width[16] > width[64] > width[1600]
    assert fit_counts(correct, samples).draws == fit_counts(correct, samples).draws  # no random numbers


def test_no_success_leaves_open_whether_there_ever_is_one():
    found = fit_counts(np.zeros(50), np.full(50, 100))
    shares = np.array([float(pass_at_k(x, 1e4)) for x in found.draws])
    assert np.quantile(shares, 0.05) < 1e-4 and np.quantile(shares, 0.95) > 0.2
    assert "no attempt was right" in found.notes[0]
    always = fit_counts(np.full(50, 100), np.full(50, 100))
    assert np.quantile([float(all_of_k(x, 1e4)) for x in always.draws], 0.95) > 0.999


def test_counts_that_cannot_be_are_refused():
    with pytest.raises(BadInput, match=r"samples\.1 = 30.0: must have from 0 to 20"):
        fit_counts(np.array([1] + [30] * 9), np.full(10, 20))
    with pytest.raises(BadInput, match="must have 16 attempts"):
        fit_counts(np.ones(20), np.full(20, 15))
    with pytest.raises(BadInput, match="must have 8 problems"):
        fit_counts(np.ones(7), np.full(7, 100))


def test_tables_of_two_go_through_both():
    for k, share, fit, most in ((8, pass_at_k, fit_pass_at_k, 1.0), (3, all_of_k, fit_all_of_k, 1 - SPOILED)):
        law = Beta(0.4, 1.3, most)
        found = fit({1: float(share(law, 1)), k: float(share(law, k))}).law
        assert found.a == pytest.approx(law.a, rel=0.02) and found.b == pytest.approx(law.b, rel=0.02)
        assert found.most == most


def test_pass_1_alone_is_assumed_and_wide():
    alone, stated = fit_pass_1(0.3), fit_pass_1(0.3, 0.8)
    assert alone.grade == stated.grade == "assumed"
    assert alone.law.mean == pytest.approx(0.3, abs=0.01) and stated.law.concentration == pytest.approx(0.8)
    spread = [np.ptp([float(pass_at_k(x, 64)) for x in f.draws]) for f in (alone, stated)]
    assert spread[0] > 2 * spread[1]


# -- bars on measured rows


def test_hundred_samples_predict_pass_at_ten_thousand():
    """Bar: mean absolute error 0.06 on MATH, 10,000 attempts a problem."""
    errors = []
    for row in rows("problem_successes"):
        if "samples_per_problem" in row:
            correct = counts(row)[0]
            found = fit_counts(*attempts(row, 100))
            errors.append(abs(float(pass_at_k(found.law, 10_000)) - np.mean(correct > 0)))
    assert len(errors) == 4 and np.mean(errors) <= 0.06


def test_bands_cover_models_that_set_nothing():
    """The band of 90 % holds 80 % of the rows at least. Nothing but two weak priors was chosen by any row."""
    held = {"pass@10": [], "pass@all": []}
    for row in rows("problem_successes"):
        correct, samples = counts(row)
        c, n = attempts(row, 100)
        found = fit_counts(c, n)
        ten = predictive_band(found.draws, partial(pass_at_k_again, correct=c, samples=n, k=10), 0.9)
        whole = predictive_band(found.draws, partial(solved_in_all, correct=c, samples=n, total=samples), 0.9)
        for metric, (low, high), truth in (
            ("pass@10", ten, estimate_pass_at_k(correct, samples, 10)),
            ("pass@all", whole, np.mean(correct > 0)),
        ):
            held[metric].append(low <= truth <= high)
    assert all(np.mean(x) >= 0.8 for x in held.values())


def test_reliability_of_agents_follows_from_two_figures():
    """Bar: pass^3 and pass^4 of τ-bench retail within 3 %."""
    for row in rows("reasoning_quality"):
        if row["kind"] == "all_of_k" and "retail" in row["task"]:
            table = {int(k): x for k, x in row["fraction"].items()}
            found = fit_all_of_k({1: table[1], 2: table[2]}, row["tasks"])
            for k in (3, 4):
                assert float(all_of_k(found.law, k)) == pytest.approx(table[k], rel=0.03)
                assert np.quantile([float(all_of_k(x, k)) for x in found.draws], 0.05) < table[k]


def test_large_language_monkeys_between_its_ends():
    """Bar: pass@10, 100 and 1,000 within 3 points of the law through pass@1 and pass@10,000.

    The rows are Large Language Monkeys' own attempts at MATH (Brown et al. 2024), as their successors publish them; its
    repository itself holds no figures.
    """
    judged = 0
    for row in rows("problem_successes"):
        if "samples_per_problem" in row:
            correct, samples = counts(row)
            ends = {k: estimate_pass_at_k(correct, samples, k) for k in (1, 10_000)}
            law = fit_pass_at_k(ends, len(correct), one_temperature=True).law
            for k in (10, 100, 1000):
                assert float(pass_at_k(law, k)) == pytest.approx(estimate_pass_at_k(correct, samples, k), abs=0.03)
                judged += 1
    assert judged == 12
