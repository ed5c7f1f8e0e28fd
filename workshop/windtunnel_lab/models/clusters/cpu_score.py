"""Scores of processors on benchmarks from their data sheets: a simulated bench, and what a learned model reads.

A benchmark is bound by its operations, by memory or by its serial part. Power sets the clock of many cores, cache says
how much traffic goes to memory, channels and their rate how fast it comes: the score has knees where one takes over
from another, and products of features between them.

Source: Liu et al., NCPP, arXiv 2407.03385: grouped hardware features and a benchmark → score; group attention there,
boosted trees here. Form: Amdahl 1967; Williams et al. 2009 (roofline).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats


@dataclass(frozen=True, slots=True)
class Benchmark:
    """What a benchmark asks for."""

    flop_per_byte: float
    """Operations for each byte that misses a cache of no size."""
    footprint_mb: float
    serial: float
    """Share of one core's time that no other core helps with."""


def sheets(rng: np.random.Generator, count: int) -> Floats:
    """Random data sheets: cores, base GHz, turbo GHz, watts, cache MB, channels, MT/s. Shape (count, 7)."""
    cores = rng.choice([8, 16, 24, 32, 40, 48, 56, 60], count)
    return np.stack(
        [
            cores,
            rng.uniform(1.7, 3.2, count),
            rng.uniform(3.3, 4.2, count),
            rng.choice([125, 165, 205, 250, 300, 350], count),
            cores * rng.choice([1.25, 1.875, 2.5], count),
            rng.choice([4, 8], count),
            rng.choice([4000, 4400, 4800], count),
        ],
        axis=1,
    ).astype(float)


WATTS_PER_CORE_GHZ3 = 0.11
"""Watts of a core at 1 GHz where power goes with the cube of the clock."""
UNCORE_SHARE = 0.25


def scores(sheet: Floats, benchmark: Benchmark) -> Floats:
    """Work a second of a benchmark on each sheet, shape (sheets,)."""
    cores, base, turbo, watts, cache, channels, rate = sheet.T
    room = (1.0 - UNCORE_SHARE) * watts / (cores * WATTS_PER_CORE_GHZ3)
    clock = np.clip(room ** (1.0 / 3.0), np.minimum(base, turbo), turbo)
    flop_per_s = cores * clock * 16e9
    misses = np.clip(1.0 - 0.9 * cache / benchmark.footprint_mb, 0.1, 1.0)
    memory = 0.8 * channels * rate * 1e6 * 8
    one_core = turbo * 16e9
    parallel_s = np.maximum(1.0 / flop_per_s, misses / benchmark.flop_per_byte / memory)
    return np.asarray(1.0 / (benchmark.serial / one_core + (1.0 - benchmark.serial) * parallel_s))
