"""The validity gate: rounds, noise widths and the order at a doubled learning rate."""

import numpy as np

from windtunnel.learning.validity import FinalLosses, compare, judge, noise_width

DP = np.array([0.500, 0.502])
ONE = np.array([0.540, 0.541])


def ran(label: str, loss: list[float], doubled: list[float] | None = None, rounds: int = 60) -> FinalLosses:
    return FinalLosses(
        label=label, loss=np.array(loss), doubled=None if doubled is None else np.array(doubled), outer_rounds=rounds
    )


GOOD = ran("good", [0.510, 0.512], [0.515, 0.516])
WORSE = ran("worse", [0.530, 0.531], [0.540, 0.541])


def test_an_order_that_holds_is_resolved():
    verdicts = judge([GOOD, WORSE], one_worker=ONE, data_parallel=DP)
    assert verdicts["good"].resolved and verdicts["worse"].resolved


def test_few_rounds_are_not_resolved():
    few = ran("few", [0.52, 0.52], [0.53, 0.53], rounds=49)
    verdict = judge([few, GOOD], one_worker=ONE, data_parallel=DP)
    assert not verdict["few"].resolved and "49 outer rounds" in verdict["few"].reasons[0]
    assert verdict["good"].resolved


def test_one_worker_as_good_as_all_resolves_nothing():
    verdicts = judge([GOOD, WORSE], one_worker=DP + 0.001, data_parallel=DP)
    assert not any(v.resolved for v in verdicts.values())
    assert "noise widths" in verdicts["good"].reasons[0]


def test_an_order_that_turns_is_not_resolved_for_either():
    turned = ran("turned", [0.530, 0.531], [0.500, 0.501])
    verdicts = judge([GOOD, turned], one_worker=ONE, data_parallel=DP)
    assert not verdicts["good"].resolved and not verdicts["turned"].resolved
    assert "turns the order with turned" in verdicts["good"].reasons[0]


def test_a_tie_at_the_doubled_rate_does_not_turn_an_order():
    tied = ran("tied", [0.530, 0.531], [0.515, 0.516])
    assert judge([GOOD, tied], one_worker=ONE, data_parallel=DP)["good"].resolved


def test_one_seed_has_no_noise():
    one = FinalLosses(label="one", loss=np.array([0.5]), doubled=np.array([0.5]), outer_rounds=60)
    verdict = judge([one], one_worker=np.array([0.6]), data_parallel=np.array([0.5]))["one"]
    assert not verdict.resolved and "one seed" in verdict.reasons[0]


def test_a_run_that_diverged_is_not_resolved_and_is_worse_than_any():
    lost = ran("lost", [0.51, np.inf], [np.inf, np.inf])
    verdicts = judge([lost, WORSE], one_worker=ONE, data_parallel=DP)
    assert "a run diverged" in verdicts["lost"].reasons
    assert compare(WORSE.loss, lost.loss, 0.001).direction == 1


def test_the_tasks_noise_is_the_median_and_a_pairs_own_counts_where_it_is_larger():
    quiet, wild = np.array([0.50, 0.52]), np.array([1.0, 3.0])
    width = noise_width([quiet, quiet + 0.1, wild])
    assert width == quiet.std(ddof=1)
    assert compare(quiet, quiet + 0.1, width).direction == 1
    assert compare(quiet, wild - 1.0, width).direction == 0
    assert np.isnan(noise_width([np.array([1.0])]))
