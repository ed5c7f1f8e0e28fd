"""Open-shop makespan on devices that are taken as alike: all jobs end at once, as soon as that can be."""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.clusters.round_policies.base import ROUND_POLICIES, Active, RoundPolicy, Shares, over_kinds

SHORTEST_S, LONGEST_S, CLOSE = 100.0, 1e6, 1.05
"""Gavel and Shockwave bisect the makespan between these, until the bounds are this close."""


def allocate(active: Active) -> Shares:
    """Share = seconds left / T, where T is the longest job or all work over all devices, whichever is longer.

    T is found by bisection as in the published code, so that it is up to 5 % above the least. Of all shares that keep T
    the analytic centre is taken: the published programme asks for nothing else, and that is where its interior-point
    solver ends. No job ends later for it, and short ones end sooner.
    """
    mean = (active.speed * active.counts).sum(axis=1) / np.maximum((active.counts * (active.speed > 0)).sum(axis=1), 1)
    seconds = active.left_s / np.maximum(mean, 1e-300)
    ends = max(float(seconds.max()), float((seconds * active.devices).sum() / active.counts.sum()))
    needed = np.minimum(seconds / _bisected(ends), 1.0)
    return over_kinds(active, centre(needed, active.devices.astype(np.float64), float(active.counts.sum())))


def centre(least: Floats, devices: Floats, room: float) -> Floats:
    """The analytic centre of all shares that keep T: Σ log of what is free at every bound is largest there.

    Args:
        least: share that each job needs.
        devices: of each job.
        room: devices in all.

    Each share x solves 1/x + 1/(x − least) − 1/(1 − x) = devices / (room − Σ devices · x); the denominator on the right
    is found by bisection, and each x inside it.
    """
    low, high = np.minimum(least, 1.0), np.ones(len(least))
    tight, loose = 1e-9, room
    out: Floats = low
    for _ in range(60):
        free = np.sqrt(tight * loose)
        below, above = low.copy(), high.copy()
        for _ in range(60):
            x = 0.5 * (below + above)
            with np.errstate(divide="ignore"):
                rises = 1 / x + 1 / np.maximum(x - least, 1e-300) - 1 / np.maximum(1 - x, 1e-300) > devices / free
            below, above = np.where(rises, x, below), np.where(rises, above, x)
        out = 0.5 * (below + above)
        tight, loose = (free, loose) if room - float(devices @ out) > free else (tight, free)
    return out


def _bisected(least: float) -> float:
    """What a bisection finds that stops early, never below the least."""
    low, high = SHORTEST_S, LONGEST_S
    while high < least:
        low, high = high, 10.0 * high
    while CLOSE * low < high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if middle >= least else (middle, high)
    return high


ROUND_POLICIES.add(
    "ossp",
    RoundPolicy(
        name="Open-shop makespan (least total duration, speeds not known)",
        source="Gonzalez and Sahni 1976; Narayanan et al., OSDI 2020; Zheng et al., NSDI 2023",
        allocate=allocate,
        shuffled=True,
    ),
    aliases=("min_total_duration",),
)
