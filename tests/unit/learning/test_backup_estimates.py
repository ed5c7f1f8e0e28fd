"""What a step with k gradients gains, estimated from those of earlier steps: numbers counted by hand."""

from __future__ import annotations

from math import exp, pi, sqrt

import numpy as np
import pytest

from windtunnel.learning.participation.backup import Decrease, mean_above_zero


def seen() -> Decrease:
    """Gradients (1, 0) and (3, 0) of a first step, mean (2, 0); (0, 1) alone of a second one."""
    found = Decrease(window=2)
    found.see(0, np.array([[1.0, 0.0], [3.0, 0.0]]))
    found.see(1, np.array([[0.0, 1.0]]))
    return found


def test_the_variance_is_that_of_gradients_around_their_mean() -> None:
    found = seen()
    assert found.variance == 2.0  # (1 + 1) / (2 − 1); one gradient has none
    found.late(0, np.array([5.0, 0.0]))
    assert found.variance == pytest.approx((2.0 + 9.0 * 2.0 / 3.0) / 2)  # ‖(5, 0) − (2, 0)‖²·k/(k + 1)


def test_a_late_gradient_joins_the_sum_of_its_own_step() -> None:
    found = seen()
    found.late(0, np.array([5.0, 0.0]))
    found.late(7, np.array([100.0, 100.0]))  # of a step that nobody remembers
    # mean of four gradients (9, 1) / 4, less the variance of the mean, cut off below 0
    noise = 4.0 / 4
    assert found.true == pytest.approx(mean_above_zero(82.0 / 16 - noise, noise * sqrt(2.0 / 2)))


def test_no_gain_is_expected_before_a_step_has_left_the_window() -> None:
    found = seen()
    assert found.gains(3, 0.1) is None
    found.see(2, np.array([[1.0, 1.0], [1.0, 3.0]]))
    gains = found.gains(3, 0.1)
    assert gains is not None
    assert gains.shape == (3,)
    assert (np.diff(gains) > 0.0).all()


def test_a_mean_above_zero_is_that_of_a_normal_law_cut_off() -> None:
    assert mean_above_zero(3.0, 0.0) == 3.0
    assert mean_above_zero(-3.0, 0.0) == 0.0
    assert mean_above_zero(0.0, 2.0) == pytest.approx(2.0 / sqrt(2.0 * pi) / 0.5)
    assert mean_above_zero(1.0, 1.0) == pytest.approx(1.0 + exp(-0.5) / sqrt(2.0 * pi) / 0.841344746068543)
    assert mean_above_zero(-100.0, 1.0) == 0.01
