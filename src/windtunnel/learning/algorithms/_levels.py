"""Which level of compression every layer gets: least bytes within a budget of error, exactly."""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats, Ints

MOST = 20_000
"""Partial choices that are kept; beyond, only the cheapest within each of as many steps of the budget is."""


def least_bytes(nbytes: Floats, errors: Floats, budget: float) -> Ints:
    """One level a layer with the least sum of bytes whose errors sum to at most `budget`.

    A dynamic programme over layers keeps every choice so far that no other beats in both bytes and error.

    Args:
        nbytes: Shape (layers, levels).
        errors: Shape (layers, levels), not negative.
        budget: Largest sum of errors.

    Returns:
        Shape (layers,). Ties go to the smaller error.

    Raises:
        ValueError: even the least errors sum to more than the budget.

    Source: Markov et al. 2024 (arXiv 2210.17357), algorithm 1, without its rounding of errors: exact
    while no more than `MOST` partial choices are open.
    """
    layers, levels = nbytes.shape
    least_after = np.append(np.cumsum(errors.min(axis=1)[::-1])[::-1], 0.0)
    slack = budget * (1.0 + 1e-12)
    if least_after[0] > slack:
        raise ValueError(f"the least errors sum to {least_after[0]:g}, above the budget of {budget:g}")
    cost, error = np.zeros(1), np.zeros(1)
    came: list[tuple[Ints, Ints]] = []
    for layer in range(layers):
        all_cost = (cost[:, None] + nbytes[layer]).ravel()
        all_error = (error[:, None] + errors[layer]).ravel()
        kept = np.flatnonzero(all_error + least_after[layer + 1] <= slack)
        kept = kept[np.lexsort((all_error[kept], all_cost[kept]))]
        best_before = np.minimum.accumulate(np.append(np.inf, all_error[kept][:-1]))
        kept = kept[all_error[kept] < best_before]
        if len(kept) > MOST:
            steps = np.ceil(all_error[kept] / budget * MOST)
            kept = np.sort(kept[np.unique(steps, return_index=True)[1]])  # the cheapest of each step
            kept = kept[np.argsort(all_cost[kept], kind="stable")]
        came.append((kept // levels, kept % levels))
        cost, error = all_cost[kept], all_error[kept]
    at = int(np.lexsort((error, cost))[0])
    out = np.empty(layers, np.int64)
    for layer in range(layers - 1, -1, -1):
        before, level = came[layer]
        out[layer], at = level[at], int(before[at])
    return out
