"""Products and attention of serving: few rows against many weights, so that both roofs count at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def both_roofs_s(compute_s: Floats, memory_s: Floats, power: float) -> Floats:
    """Seconds of a kernel near the corner of its roofline: `(tc^p + tm^p)^(1/p)`, at least the larger of both.

    Source: docs/serving.md; p 3 fits measured decode and prompt times alike. Valid for: one kernel with overlapped
    loads. Error: products at the corner take 26 % more than the hard maximum.
    """
    big = np.maximum(np.maximum(compute_s, memory_s), 1e-300)
    return np.asarray(big * ((compute_s / big) ** power + (memory_s / big) ** power) ** (1.0 / power))


def distinct_experts(experts: float, topk: float, tokens: Floats, skew: float) -> Floats:
    """Expected number of experts that at least one of `tokens` tokens is routed to.

    `skew` below 1 counts popular experts as fewer alike ones. Source: the occupancy of `experts` bins by draws without
    replacement within a token. Valid for: routing that draws experts alike within the `skew` share.
    """
    alike = max(experts * skew, topk)
    return np.asarray(alike * (1.0 - (1.0 - topk / alike) ** tokens))
