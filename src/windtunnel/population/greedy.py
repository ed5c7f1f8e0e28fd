"""From one greedy attempt at each problem to the mean of sampled ones.

Greedy answers are right more often: sampling takes `COST` off the logit of pass@1, differently for each model. The
greedy share itself is one draw of few problems. Both make the interval.
"""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats

COST, COST_SD = 0.55, 0.29
"""Logits between greedy and sampled pass@1, and their spread over models: eight Qwen2.5 models before and after
reinforcement on AIME 2024, mean of 32 samples."""
FEWEST_RIGHT = 3
"""Problems that a greedy attempt must solve: fewer leave an interval as wide as what it says."""
_POINTS = 200


def sampled_means(right: float, problems: int, cost: float = COST, spread: float = COST_SD) -> Floats:
    """Equally likely means of sampled attempts, ascending.

    Args:
        right: problems that the greedy attempt solved.
        problems: of the benchmark.
        cost: logits that sampling takes off.
        spread: its standard deviation over models.
    """
    from scipy.special import betaincinv, expit, logit, ndtri

    greedy = betaincinv(right + 0.5, problems - right + 0.5, (np.arange(_POINTS) + 0.5) / _POINTS)
    costs = cost + spread * ndtri((np.arange(41) + 0.5) / 41)
    means: Floats = np.sort(expit(logit(np.clip(greedy, 1e-12, 1 - 1e-12))[:, np.newaxis] - costs).ravel())
    return means
