"""As many ranks as a document needs: short ones stay on one rank, and work is dealt by its time.

Source: Ge et al. 2025 (arXiv 2502.21231), hybrid data parallelism and its balance scheduler.
"""

from __future__ import annotations

from bisect import bisect_left, insort

import numpy as np
from numpy.random import Generator

from windtunnel.arrays import Floats
from windtunnel.training.variable_length.rank_lanes import LAYOUTS, Case, Lanes, filled


@LAYOUTS.register("by_length")
def by_length(case: Case, rng: Generator) -> Lanes:
    """Wide documents first, each to the ranks that are free soonest, then bins of short ones to the least busy rank."""
    documents = case.documents(rng)
    jobs = [(width, length / width, length) for width, length in widths_of(documents, case)]
    jobs += [(1, tokens, squares / tokens) for tokens, squares in bins(documents[documents <= case.capacity], case)]
    seconds = [case.table.of(width, length, tokens) for width, tokens, length in jobs]
    order = sorted(range(len(jobs)), key=lambda i: (-jobs[i][0], -float(seconds[i].sum())))
    lanes: list[list[Floats]] = [[] for _ in range(case.ranks)]
    load = np.zeros(case.ranks)
    for i in order:
        width = jobs[i][0]
        blocks = load.reshape(-1, width).max(axis=1)
        first = int(blocks.argmin()) * width
        load[first : first + width] = blocks.min() + float(seconds[i].sum())
        for rank in range(first, first + width):
            lanes[rank].append(seconds[i])
    shares = {w: sum(w * t for width, t, _ in jobs if width == w) / documents.sum() for w in {j[0] for j in jobs}}
    total = float(documents.sum())
    return Lanes(
        filled(lanes, seconds[0].shape),
        total,
        total,
        float((documents**2).sum()),
        {w: float(share) for w, share in sorted(shares.items())},
    )


def widths_of(documents: Floats, case: Case) -> list[tuple[int, float]]:
    """(ranks, length) of documents that one rank cannot hold."""
    known = np.array(sorted(case.table.lengths))
    long = documents[documents > case.capacity]
    at = np.minimum(np.searchsorted(known * case.capacity, long - 1e-6), len(known) - 1)
    return list(zip(known[at].tolist(), long.tolist(), strict=True))


def bins(documents: Floats, case: Case) -> list[tuple[float, float]]:
    """(tokens, sum of squared lengths) of bins that one rank holds, filled best-fit from the longest document on."""
    room: list[tuple[float, int]] = []
    tokens: list[float] = []
    squares: list[float] = []
    for length in np.sort(documents)[::-1].tolist():
        at = bisect_left(room, (length, -1))
        if at == len(room):
            left, i = case.capacity, len(tokens)
            tokens.append(0.0)
            squares.append(0.0)
        else:
            left, i = room.pop(at)
        tokens[i] += length
        squares[i] += length**2
        insort(room, (left - length, i))
    return list(zip(tokens, squares, strict=True))
