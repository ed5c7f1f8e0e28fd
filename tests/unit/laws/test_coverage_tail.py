"""The exponentiated power of coverage against measured attempts, and as a check of the tail of fitted Beta laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from reasoning_rows import counts, rows

from windtunnel.laws import LAWS
from windtunnel.laws.published.large_language_monkeys import of_beta
from windtunnel.population.beta import Beta
from windtunnel.population.fit import fit_counts
from windtunnel.population.pass_at_k import estimate_pass_at_k, pass_at_k

LAW = LAWS.get("large-language-monkeys")


def test_both_packages_have_one_coverage_of_a_beta() -> None:
    for a, b in ((0.05, 0.4), (0.3, 1.2), (2.0, 9.0)):
        for k in (1, 17, 4000):
            assert of_beta(k, a, b) == pytest.approx(float(pass_at_k(Beta(a, b), k)), rel=1e-9)


def test_two_points_predict_the_third_and_a_fitted_beta_has_the_measured_exponent() -> None:
    """Bar: coverage at 1,000 attempts from that at 10 and 100, mean absolute error 0.03; exponents within 0.03."""
    coverage_errors, exponent_errors = [], []
    for row in rows("problem_successes"):
        correct, samples = counts(row)
        if samples.min() < 1000:
            continue
        ten, hundred, thousand = (estimate_pass_at_k(correct, samples, k) for k in (10, 100, 1000))
        if not 0.02 < ten < thousand < 0.98:  # nearly nothing or nearly all solved: no curve to follow
            continue
        points = {"k1": 10, "c1": ten, "k2": 100, "c2": hundred}
        told = LAW.predict({"samples": 1000, **points}).values["coverage"].value
        coverage_errors.append(abs(told - thousand))
        law = fit_counts(correct, samples).law
        tail = LAW.predict({"samples": 316, "alpha": law.a, "beta": law.b}).values["exponent"].value
        exponent_errors.append(abs(tail - math.log10(math.log(hundred) / math.log(thousand))))
    assert len(coverage_errors) >= 5
    assert np.mean(coverage_errors) <= 0.03 and np.mean(exponent_errors) <= 0.03
