"""How long training takes until a target is reached, from the step and from samples of the steps that it took.

MLPerf Training counts so: minutes from the first batch to the target. Evaluations count there and are no part of a
step: they come on top.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from windtunnel.training.results.records import Interval, TimeToTrain


def time_to_train(steps: Sequence[int], step_time_s: float, interval: Interval) -> TimeToTrain | None:
    """Minutes to the target with their interval; None where no number of steps is stated.

    Logarithms of steps of runs that differ by seed are taken as normal. The median run is predicted; a new run lies
    within Student's t for n − 1 degrees of freedom times s · √(1 + 1/n) of it (the prediction interval of one more
    draw: Student 1908; NIST/SEMATECH e-Handbook of Statistical Methods, section 7.2.1), independent of the error of the
    step.

    Args:
        steps: One number a run that was seen.
        step_time_s: Predicted seconds of a step.
        interval: The interval of the step.
    """
    if not steps:
        return None
    middle = statistics.median(steps)
    half = _half_width([math.log(n) for n in steps], interval.level)
    minutes = middle * step_time_s / 60.0
    shorter = math.hypot(math.log(step_time_s / interval.low), half)
    longer = math.hypot(math.log(interval.high / step_time_s), half)
    runs = f"{len(steps)} runs" if len(steps) > 1 else "one number of steps, whose spread is not known"
    return TimeToTrain(
        steps=float(middle),
        minutes=minutes,
        low=minutes * math.exp(-shorter),
        high=minutes * math.exp(longer),
        level=interval.level,
        basis=f"{runs}; evaluations come on top",
    )


def _half_width(logs: Sequence[float], level: float) -> float:
    """Half-width of the prediction interval of one more draw."""
    if len(logs) < 2:
        return 0.0
    from scipy.special import stdtrit

    n = len(logs)
    return float(stdtrit(n - 1, 0.5 + level / 2.0)) * statistics.stdev(logs) * math.sqrt(1.0 + 1.0 / n)
