"""Scores of algorithms by time to target over several tasks: performance profiles, as AlgoPerf has them.

Source: Dahl et al. 2023 (arXiv 2306.07179), section 4: the ratio of an algorithm's time to the fastest one's on each
task, infinite beyond a limit; the share of tasks within a ratio; its integral from 1 to the limit, as a share.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from windtunnel.learning.results import LearningResult

LIMIT = 4.0
"""Ratio to the fastest beyond which a task counts as not reached (mlcommons/algorithmic-efficiency)."""
Times = Mapping[str, Mapping[str, float]]
"""Task → algorithm → seconds to the target; infinite where it was not reached."""


def ratios(times: Times, limit: float = LIMIT) -> dict[str, dict[str, float]]:
    """Algorithm → task → time over the fastest one's; infinite beyond the limit or where nobody arrives."""
    names = list(dict.fromkeys(name for row in times.values() for name in row))
    out: dict[str, dict[str, float]] = {name: {} for name in names}
    for task, row in times.items():
        fastest = min(row.values())
        for name in names:
            ratio = row.get(name, math.inf) / fastest if 0 < fastest < math.inf else math.inf
            out[name][task] = ratio if ratio <= limit else math.inf
    return out


def profile(of: Mapping[str, float], ratio: float) -> float:
    """Share of tasks that an algorithm finishes within so many times the fastest time."""
    return sum(one <= ratio for one in of.values()) / len(of)


def scores(times: Times, limit: float = LIMIT) -> dict[str, float]:
    """Algorithm → area below its profile between 1 and the limit, as a share; exact, the profile being steps."""
    return {
        name: sum(limit - one for one in own.values() if one <= limit) / (limit - 1.0) / len(own)
        for name, own in ratios(times, limit).items()
    }


def times_of(results: Sequence[LearningResult]) -> dict[str, dict[str, float]]:
    """Times of results of `learn`, one a task, by task and label; a target that a seed misses is not reached."""
    return {
        result.task: {
            one.label: math.inf if one.time_to_target_s is None else one.time_to_target_s for one in result.algorithms
        }
        for result in results
    }
