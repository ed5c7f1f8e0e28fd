"""Rounds of workers that fail and join."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from windtunnel.learning.drivers.outages import Outage, Outages
from windtunnel.learning.messages import Message, Plain
from windtunnel.learning.randomness import Draws
from windtunnel.learning.timing.elastic_rounds import elastic_rounds
from windtunnel.learning.timing.links import Link
from windtunnel.learning.timing.lock_step import time_lock_step
from windtunnel.learning.timing.target import Target, stated_layers
from windtunnel.specs.run import FailureCause, FailureProfile

WIRE = Plain(8)
TARGET = Target(
    step_s=1.0,
    layers=stated_layers(1e9, 4),
    link=Link(up_bytes_per_s=1e8, down_bytes_per_s=1e8, algorithm="ring"),
)
PERIOD = 100


def exchange_s(n: int) -> float:
    return 2 * (n - 1) / n * 1e9 / 1e8


def messages(step: int):
    return (
        (Message(kind="all_reduce", wire=WIRE, after_step=step, needed_by=step + 1),)
        if (step + 1) % PERIOD == 0
        else ()
    )


@dataclass
class Stated:
    """Failures by (worker, number)."""

    outages: dict[tuple[int, int], Outage] = field(default_factory=dict)
    late: dict[int, float] = field(default_factory=dict)

    def joins(self, worker: int) -> float:
        return self.late.get(worker, 0.0)

    def next(self, worker: int, number: int) -> Outage | None:
        return self.outages.get((worker, number))


def test_without_failures_rounds_are_those_of_the_clock() -> None:
    rounds = elastic_rounds(messages, TARGET, 4, 20, Stated())
    timing = time_lock_step(messages, TARGET, 4, 20 * PERIOD)
    np.testing.assert_allclose(rounds.end_s, timing.time_s[PERIOD::PERIOD])
    assert rounds.utilisation == pytest.approx(timing.utilisation)
    assert rounds.failures == 0


def test_a_failure_while_all_compute_costs_a_workers_steps_alone() -> None:
    """Worker 2 dies in second 30, the others know 10 s later, and it is back for the third round."""
    rounds = elastic_rounds(messages, TARGET, 4, 4, Stated({(2, 0): Outage(30.0, 10.0, 150.0)}))
    assert rounds.survived[0] == (0, 1, 3)
    first = PERIOD + exchange_s(3)
    second = first + PERIOD + exchange_s(3)
    np.testing.assert_allclose(
        rounds.end_s, [first, second, second + 100 + exchange_s(4), second + 2 * (100 + exchange_s(4))]
    )
    assert rounds.began == ((0, 1, 2, 3), (0, 1, 3), (0, 1, 2, 3), (0, 1, 2, 3))
    assert rounds.waited_s.sum() == 0.0


def test_an_exchange_that_loses_a_worker_is_done_again_among_those_that_are_left() -> None:
    rounds = elastic_rounds(messages, TARGET, 4, 1, Stated({(1, 0): Outage(105.0, 60.0, 1e9)}))
    assert rounds.end_s[0] == pytest.approx(105.0 + 60.0 + exchange_s(3))
    assert rounds.waited_s[0] == pytest.approx(65.0)
    assert rounds.survived == ((0, 2, 3),)


def test_late_workers_join_at_a_border() -> None:
    rounds = elastic_rounds(messages, TARGET, 3, 3, Stated(late={2: 150.0}))
    assert [len(who) for who in rounds.began] == [2, 2, 3]
    assert list(rounds.participants(None, 2)) == [0, 1, 2]


def test_nobody_left_waits_for_the_first_to_be_back() -> None:
    outages = Stated({(0, 0): Outage(50.0, 1.0, 500.0)})
    rounds = elastic_rounds(messages, TARGET, 1, 2, outages)
    assert rounds.survived == ((), (0,))
    assert rounds.begin_s[1] == pytest.approx(550.0)


def test_failures_of_a_profile_cost_more_the_more_there_are_and_the_same_seed_gives_the_same_rounds() -> None:
    def play(per_1000_node_days: float):
        cause = FailureCause(name="gpu", per_1000_node_days=per_1000_node_days, detect_s=60.0)
        profile = FailureProfile(causes=(cause,), repair_s=3600.0)
        return elastic_rounds(messages, TARGET, 14, 200, Outages(profile, Draws(3), nodes=1))

    used = [play(rate).utilisation for rate in (0.0, 2e4, 1e5)]
    assert used[0] > used[1] > used[2]
    one, other = play(2e4), play(2e4)
    np.testing.assert_array_equal(one.end_s, other.end_s)
    assert one.survived == other.survived and one.failures > 0


def test_schedules_that_never_repeat_are_refused() -> None:
    def growing(step: int):
        return (Message(kind="all_reduce", wire=WIRE, copies=1.0 + step, after_step=step, needed_by=step + 1),)

    with pytest.raises(ValueError, match="have to repeat"):
        elastic_rounds(growing, TARGET, 2, 2, Stated())
