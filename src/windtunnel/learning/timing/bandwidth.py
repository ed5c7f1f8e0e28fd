"""What link do I need? Utilisation at a bandwidth, and the least bandwidth for a utilisation.

Utilisation is that of one round in the middle of a long run: computing seconds over all seconds.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from windtunnel.learning.timing.links import Link
from windtunnel.learning.timing.lock_step import LockStepRun
from windtunnel.learning.timing.schedule import Messages, Schedule, read_schedule
from windtunnel.learning.timing.target import Target

CLOSE = 1e-4
"""Relative width of the interval in which the least bandwidth is known at the end."""
MOST_BYTES_PER_S = 1e18
UNIT = 1e9
"""Bytes/s that programs are built for before their transfers are stretched."""


def utilisation_at(
    messages: Messages | Schedule, target: Target, workers: int, bytes_per_s: float, *, steps: int, seed: int = 1
) -> float:
    """Computing seconds over all seconds where a worker's link carries `bytes_per_s` in each direction.

    Latency, sites and what links meet in stay those of the target's link.

    Args:
        messages: What the algorithm sends in each local step.
        target: What is trained.
        workers: How many there are.
        bytes_per_s: Of the link, one direction.
        steps: Local steps to look at: several rounds.
        seed: Of drawn speeds and latencies.
    """
    run = LockStepRun.of(messages, _behind(target, bytes_per_s), workers, steps, seed)
    return run.utilisation(run.begins())


def _behind(target: Target, bytes_per_s: float) -> Target:
    """The target behind a link of this bandwidth."""
    link = target.link or Link(up_bytes_per_s=inf, down_bytes_per_s=inf)
    return replace(target, link=replace(link, up_bytes_per_s=bytes_per_s, down_bytes_per_s=bytes_per_s))


def bandwidth_for(
    utilisation: float, messages: Messages | Schedule, target: Target, workers: int, *, steps: int, seed: int = 1
) -> float | None:
    """Least bytes/s of a worker's link, one direction, with which workers compute for a share of their time.

    Args:
        utilisation: The share, from 0 to below 1.
        messages: What the algorithm sends in each local step.
        target: What is trained; its link's own rates are not read, its latency is.
        workers: How many there are.
        steps: Local steps to look at: several rounds.
        seed: Of drawn speeds and latencies.

    Returns:
        None where no bandwidth is enough: latencies or slow workers alone take more.
    """
    schedule = read_schedule(messages, steps)
    link = target.link
    alone = link is None or (link.site is None and link.shared_bytes_per_s == inf and not link.latency_s)
    base = LockStepRun.of(schedule, _behind(target, UNIT), workers, steps, seed)

    def enough(rate: float) -> bool:
        """Where the link's rate alone decides, transfers of one program are stretched."""
        if alone:
            return base.utilisation(base.begins(UNIT / rate)) >= utilisation
        return utilisation_at(schedule, target, workers, rate, steps=steps, seed=seed) >= utilisation

    if not enough(MOST_BYTES_PER_S):
        return None
    low = high = 1e9 / 8
    while enough(low):
        low, high = low / 16.0, low
        if low < 1.0:
            return low
    while not enough(high):
        low, high = high, high * 16.0
    while high / low > 1.0 + CLOSE:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
