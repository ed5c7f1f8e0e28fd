"""Draws of single plans: their ratios spread as `compare` says, and each keeps its own band."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from windtunnel.commands.draws import normal
from windtunnel.training.results.records import Interval
from windtunnel.training.uncertainty.comparable_runs import Subject, residuals
from windtunnel.training.uncertainty.plan_difference import (
    MOST_APART,
    below,
    paired_difference,
    settings_apart,
    weighted_band,
)
from windtunnel.training.uncertainty.plan_errors import OwnError, _fitted, drawn_error, own_error

BAND = Interval(level=0.8, low=0.78, high=1.3, basis="", grade="fitted")
DRAWS = 3000
CHANGES = ("mbs7", "zero2", "gbs77", "cp9", "ep7", "vpp11")
"""Settings that no measured plan has."""


def _subjects() -> list[Subject]:
    every = residuals()
    if not every:
        pytest.skip("the catalogue has no residuals")
    return [every[i].subject for i in range(0, len(every), max(1, len(every) // 6))][:6]


def _changed(subject: Subject, changes: tuple[str, ...]) -> Subject:
    names = {word.rstrip("0123456789") for word in changes}
    kept = [word for word in subject.plan.split() if word.rstrip("0123456789") not in names]
    return replace(subject, plan=" ".join([*kept, *changes]))


def _logs(subject: Subject | None, band: Interval = BAND) -> np.ndarray:
    return np.array([math.log(drawn_error(subject, 1.0, band, partial(normal, 3, k))) for k in range(DRAWS)])


@pytest.mark.slow
def test_ratios_spread_as_measured_pairs_do() -> None:
    """Each width within 30 % of that of `compare`, all of them within 10 % on average."""
    off = []
    for subject in _subjects():
        here = _logs(subject)
        for apart in (1, 2, 4):
            other = _changed(subject, CHANGES[:apart])
            assert settings_apart(subject, other) == apart
            low, high = np.quantile(_logs(other) - here, [0.1, 0.9])
            told = paired_difference(subject, other, 1.0, 1.0, BAND, BAND)
            off.append(math.log((high - low) / math.log(told.high / told.low)))
    assert np.abs(off).max() < math.log(1.3), np.round(off, 3)
    assert abs(np.mean(off)) < math.log(1.1), np.round(off, 3)


def test_each_plan_keeps_its_band() -> None:
    for subject in (*_subjects()[:2], None):
        low, high = np.quantile(_logs(subject), [0.1, 0.9])
        assert low == pytest.approx(math.log(BAND.low), abs=0.02)
        assert high == pytest.approx(math.log(BAND.high), abs=0.02)


def test_a_band_that_is_narrower_than_differences_is_kept() -> None:
    narrow = Interval(level=0.8, low=0.97, high=1.03, basis="", grade="fitted")
    low, high = np.quantile(_logs(_subjects()[0], narrow), [0.1, 0.9])
    assert (math.exp(low), math.exp(high)) == pytest.approx((0.97, 1.03), abs=0.004)


def test_the_same_plan_has_the_same_error_and_another_model_none_in_common() -> None:
    subject = _subjects()[0]
    assert (_logs(subject) == _logs(replace(subject))).all()
    stranger = _logs(replace(subject, seq_len=subject.seq_len + 1))
    assert abs(np.corrcoef(_logs(subject), stranger)[0, 1]) < 0.06


def test_variances_are_fitted_without_negative_ones() -> None:
    apart = np.arange(1, MOST_APART + 1)
    exact = _fitted(2.0 * (0.003 + 0.0007 * apart))
    assert (exact.plan, exact.setting) == pytest.approx((0.003, 0.0007))
    falling = _fitted(0.01 / apart)
    assert falling.plan >= 0.0 and falling.setting >= 0.0
    assert OwnError(0.0, 0.5).difference(4) == pytest.approx(2.0)


def test_a_measured_plan_has_an_own_error() -> None:
    found = own_error(_subjects()[0])
    assert found is not None and found.difference(6) > found.difference(1) > 0.0


def test_few_groups_widen_the_quantiles() -> None:
    """Five equal errors stand at 0.1, 0.3 … 0.9; 0.6·(5 + 1)/5 = 0.72 of the law lies between 0.14 and 0.86."""
    errors, weights = np.array([0.1, -0.2, 0.0, 0.2, -0.1]), np.full(5, 0.2)
    assert weighted_band(errors, weights, 5.0, 0.6) == pytest.approx((-0.18, 0.18))
    assert weighted_band(errors, weights, 1.0, 0.6) == pytest.approx((-0.2, 0.2))  # no more than 0.98
    assert weighted_band(errors, np.array([0.4, 0.15, 0.15, 0.15, 0.15]), 1e9, 0.5) == pytest.approx(
        (-0.1 + 0.1 * 0.025 / 0.15, 0.1 + 0.1 * 0.1 / 0.275)
    )


def test_the_chance_of_an_error_below_a_value_never_reaches_one() -> None:
    errors, weights = np.array([-0.1, 0.0, 0.1, 0.2]), np.full(4, 0.25)
    assert below(errors, weights, 9.0, 0.0) == pytest.approx((0.375 * 9.0 + 0.5) / 10.0)
    assert below(errors, weights, 9.0, 1.0) == pytest.approx(0.95)
