"""A row under one feed: locks act late and on low priority first, the brake comes above the limit."""

from __future__ import annotations

import numpy as np
import pytest

from windtunnel_lab.models.clusters.power_row import RowCourse, RowRequests, RowRules, ServerPower, simulate_row

POWER = ServerPower(
    prompt_w=np.array([800.0, 750.0, 700.0, 250.0]),
    tokens_w=np.array([800.0, 750.0, 700.0, 250.0]),
    idle_w=100.0,
    prompt_speed=np.array([1.0, 0.8, 0.5, 0.25]),
    tokens_speed=np.array([1.0, 1.0, 0.8, 0.25]),
)
ALL = np.array([False, False, True, True])


def _row(limit_w: float, *, caps: bool = True, tokens_s: float = 1000.0) -> RowCourse:
    """Four servers, one long request for each from the first second on."""
    requests = RowRequests(arrival_s=np.zeros(4), high=ALL, prompt_s=np.full(4, 10.0), tokens_s=np.full(4, tokens_s))
    return simulate_row(POWER, RowRules(limit_w=limit_w, caps=caps), requests, ALL, 400.0)


def test_a_row_below_its_thresholds_is_left_alone() -> None:
    course = _row(10_000.0, tokens_s=20.0)
    assert course.watts[:29].tolist() == [3200.0] * 29 and course.watts[-1] == 400.0
    assert course.latency_s.tolist() == pytest.approx([30.0] * 4)
    assert (course.brakes, course.capped_share) == (0, 0.0)


def test_locks_act_after_the_delay_on_low_priority_alone() -> None:
    """3,200 W are 0.85 of 3,765: low priority goes to 750 W forty seconds after it was read, high priority stays."""
    course = _row(3765.0)
    assert (course.watts[:40] == 3200.0).all()
    assert course.watts[42:].tolist() == [3100.0] * 358
    assert not np.isfinite(course.latency_s).any()


def test_high_priority_follows_where_low_is_not_enough() -> None:
    """3,200 W are 0.93 of 3,450: 700 W for low priority leave 3,000, 0.87. Of 3,250 that is 0.92: high priority too."""
    assert _row(3450.0).watts[100:].tolist() == [3000.0] * 300
    assert _row(3250.0).watts[200:].tolist() == [2900.0] * 200


def test_the_brake_comes_above_the_limit_with_caps_or_without() -> None:
    free = _row(3000.0, caps=False)
    assert free.brakes > 1 and free.watts.min() == 4 * 250.0
    assert _row(3000.0).brakes < free.brakes
