"""Products and attention of serving: few rows against many weights, so that both roofs count at once."""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats


def both_roofs_s(compute_s: Floats, memory_s: Floats, power: float) -> Floats:
    """Seconds of a kernel near the corner of its roofline: `(tc^p + tm^p)^(1/p)`, at least the larger of both.

    Source: docs/serving/overview.md; p 3 fits measured decode and prompt times alike. Valid for: one kernel with
    overlapped loads. Error: products at the corner take 26 % more than the hard maximum.
    """
    big = np.maximum(np.maximum(compute_s, memory_s), 1e-300)
    return np.asarray(big * ((compute_s / big) ** power + (memory_s / big) ** power) ** (1.0 / power))


FITTED_ROWS, FULL_ROWS, FULL = 512.0, 4096.0, 0.8
"""Rows an expert up to which engines' rows tell the rate of grouped products, from which on products are large, and the
rate of large ones over that of one product."""


def filled(fitted: float, rows: Floats) -> Floats:
    """Rate of grouped products over that of one large product, by rows of an expert.

    Batches that engines are fitted to have up to 512 rows an expert (8,192 tokens to 8 of 128 experts); with many more
    each group is a large product. Between, the rate rises with the logarithm of the rows.

    Source: grouped products in bf16 on B200 reach 0.59, 0.70, 0.80 and 0.75 of the dense rate at 512, 1,024, 2,460 and
    9,832 rows, on A100 0.93 at 1,232 (github.com/MooreThreads/SimuMax, configs/system); in fp8 on H800 as much as one
    product at 4,096 and 8,192 (github.com/deepseek-ai/DeepGEMM). Valid for: any; a fitted rate that is larger stands.
    """
    share = np.clip(np.log(np.maximum(rows, 1e-300) / FITTED_ROWS) / np.log(FULL_ROWS / FITTED_ROWS), 0.0, 1.0)
    return np.asarray(fitted + share * max(FULL - fitted, 0.0))


def distinct_experts(experts: float, topk: float, tokens: Floats, skew: float) -> Floats:
    """Expected number of experts that at least one of `tokens` tokens is routed to.

    `skew` below 1 counts popular experts as fewer alike ones. Source: the occupancy of `experts` bins by draws without
    replacement within a token. Valid for: routing that draws experts alike within the `skew` share.
    """
    alike = max(experts * skew, topk)
    return np.asarray(alike * (1.0 - (1.0 - topk / alike) ** tokens))
