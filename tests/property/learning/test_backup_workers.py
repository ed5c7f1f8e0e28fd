"""Dynamic backup workers against every static number. Settings were written down before the first run.

16 workers; softmax regression with 64 inputs, batch 8, learning rate 0.1; target 5 % of the initial excess loss. Round
trips: (a) exponential with mean 1 s, drawn anew each step; (b) delays that change: log-normal jitter of 0.3 everywhere,
and in every second span of 100 s half of the workers are ten times slower.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import pytest
from arrival_runs import built_task, job_of, pace_of, run

from windtunnel.learning.drivers.arrival_results import ArrivalCurve
from windtunnel.learning.drivers.pace import DrawnPace

pytestmark = pytest.mark.slow

WORKERS = 16


@dataclass
class ChangingPace:
    """Half of the workers are ten times slower in every second span."""

    drawn: DrawnPace
    span_s: float = 100.0

    def round_s(self, worker: int, round_number: int, steps: int, now_s: float) -> float:
        """See `Pace`."""
        slow = worker % 2 == 1 and int(now_s / self.span_s) % 2 == 1
        return self.drawn.round_s(worker, round_number, steps, now_s) * (10.0 if slow else 1.0)


@cache
def time_to_target(case: str, seed: int, k: int | None) -> ArrivalCurve:
    """A run until the target."""
    task = built_task("logistic", WORKERS, inputs=64)
    start = float(task.evaluate(task.initial()[None, :]).loss[0])
    job = job_of(task, steps=20_000, lr=0.1, seed=seed)
    pace = (
        pace_of(WORKERS, exponential=True, seed=seed)
        if case == "exponential"
        else ChangingPace(pace_of(WORKERS, jitter=0.3, seed=seed))
    )
    setting = {"evaluate_every": 1, "stop_loss": task.floor + 0.05 * (start - task.floor)}
    curve = run("dbw", task, job, pace, setting, **({} if k is None else {"wait_for": k}))
    assert curve.ended == "target"
    return curve


BEHIND = pytest.mark.xfail(
    strict=True,
    reason="0.90 to 0.93: waiting for one is best throughout a run of 215 steps, and estimates over 20 of them take "
    "more now and then",
)


@pytest.mark.parametrize(
    ("case", "seed"),
    [
        ("exponential", 1),
        pytest.param("exponential", 2, marks=BEHIND),
        ("exponential", 3),
        pytest.param("changing", 1, marks=BEHIND),
        ("changing", 2),
        pytest.param("changing", 3, marks=BEHIND),
    ],
)
def test_dynamic_number_is_never_far_behind_the_best_static_one(case, seed):
    best = min(time_to_target(case, seed, k).time_s[-1] for k in range(1, WORKERS + 1))
    gain = best / time_to_target(case, seed, None).time_s[-1]
    assert 0.95 <= gain <= 3.0
