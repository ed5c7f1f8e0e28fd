"""When requests arrive: Poisson, Gamma, constant, on and off, a daily sine.

All are drawn as a whole, from streams of their own: another rate scales the same gaps, more requests only add to them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.random import Generator

from windtunnel.arrays import Floats
from windtunnel.machine_memory import require_bytes
from windtunnel.specs.traffic import TrafficSpec

GAPS, KEPT = 1, 2
"""Streams of random numbers next to a seed (see `lengths` for the others)."""

BYTES_A_REQUEST = 600.0
"""Memory of a request: its lengths and times, what the loop keeps of it and what metrics take."""


def stream(seed: int, which: int) -> Generator:
    """Random numbers of one use, independent of all others."""
    return np.random.default_rng((seed, which))


def poisson(spec: TrafficSpec, rate_per_s: float, count: int, seed: int) -> Floats:
    """Exponential gaps; the first request comes after one."""
    arrivals: Floats = stream(seed, GAPS).standard_exponential(count).cumsum() / rate_per_s
    return arrivals


def gamma(spec: TrafficSpec, rate_per_s: float, count: int, seed: int) -> Floats:
    """Gamma gaps of shape `burstiness`: coefficient of variation 1/√burstiness, the meaning of vLLM's benchmark."""
    shape = spec.burstiness
    arrivals: Floats = stream(seed, GAPS).standard_gamma(shape, count).cumsum() / (shape * rate_per_s)
    return arrivals


def constant(spec: TrafficSpec, rate_per_s: float, count: int, seed: int) -> Floats:
    """Request k at exactly k/rate."""
    return np.arange(count) / rate_per_s


def bursty(spec: TrafficSpec, rate_per_s: float, count: int, seed: int) -> Floats:
    """On and off: each period begins with period/peak_to_mean seconds at the peak rate, the rest is silent.

    Gaps (Gamma of shape `burstiness`) are drawn in time that runs while the source is on, then stretched over the
    silence: exact, no thinning.
    """
    on_s = spec.period_s / spec.peak_to_mean
    awake_s = gamma(spec, rate_per_s * spec.peak_to_mean, count, seed)
    periods = np.floor(awake_s / on_s)
    arrivals: Floats = periods * spec.period_s + (awake_s - periods * on_s)
    return arrivals


def diurnal(spec: TrafficSpec, rate_per_s: float, count: int, seed: int) -> Floats:
    """Poisson with rate·(1 + (peak_to_mean − 1)·sin(2π·t/period)): drawn at the peak, thinned to the rate.

    Source: Lewis and Shedler, Simulation of nonhomogeneous Poisson processes by thinning (1979).
    """
    peak, depth = rate_per_s * spec.peak_to_mean, spec.peak_to_mean - 1
    drawn = int(count * spec.peak_to_mean * 1.05) + 64
    while True:
        at_s = poisson(spec, peak, drawn, seed)
        level = (1 + depth * np.sin(2 * np.pi / spec.period_s * at_s)) / spec.peak_to_mean
        kept: Floats = at_s[stream(seed, KEPT).random(drawn) < level]
        if len(kept) >= count:
            return kept[:count]
        drawn *= 2


PROCESSES: dict[str, Callable[[TrafficSpec, float, int, int], Floats]] = {
    "poisson": poisson,
    "gamma": gamma,
    "constant": constant,
    "bursty": bursty,
    "diurnal": diurnal,
}


def arrivals(spec: TrafficSpec, rate_per_s: float, count: int | None, seed: int) -> Floats:
    """Arrival times, increasing.

    Args:
        spec: process and its shape.
        rate_per_s: mean rate of what arrives (sessions come at a lower rate than their requests).
        count: how many at most; None: all within `duration_s`.
        seed: of the whole traffic.

    Returns:
        (n,) seconds; none at or after `duration_s`.
    """
    process = PROCESSES[spec.process]
    bound = math.inf if spec.duration_s is None else rate_per_s * spec.duration_s * 1.05 + 64
    most = bound if count is None else count
    over = spec.peak_to_mean if spec.process == "diurnal" else 1.0
    field = "serving.traffic.duration_s" if count is None else "serving.traffic.num_requests"
    require_bytes(most * over * BYTES_A_REQUEST, field, f"{most:,.0f} requests")
    if spec.duration_s is None:
        assert count is not None
        return process(spec, rate_per_s, count, seed)
    if count is not None:
        at_s = process(spec, rate_per_s, count, seed)
        return at_s[at_s < spec.duration_s]
    drawn = int(rate_per_s * spec.duration_s * 1.05) + 64
    while True:
        at_s = process(spec, rate_per_s, drawn, seed)
        if at_s[-1] >= spec.duration_s:
            return at_s[at_s < spec.duration_s]
        drawn *= 2
