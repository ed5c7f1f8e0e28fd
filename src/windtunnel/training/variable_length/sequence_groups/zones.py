"""Attention by length, everything else by tokens: short documents on a rank, longer ones in a node or over several.

Attention takes the layout that balances its quadratic work; before and after it tokens move between ranks, so that
linear layers work on as many tokens everywhere.

Source: Chen et al. 2025 (arXiv 2509.21841): zones and the remapping layer.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from windtunnel.arrays import Floats
from windtunnel.training.variable_length.rank_lanes import LAYOUTS, Case, Lanes


@LAYOUTS.register("zones")
def zones(case: Case, rng: Generator) -> Lanes:
    """All ranks work on one micro-batch after the other; each takes its slowest rank's attention."""
    documents = np.sort(case.documents(rng))[::-1]
    micro = [documents[i :: case.m] for i in range(case.m)]
    shares: dict[int, float] = {}
    seconds = np.array([_micro_batch(own, case, shares) for own in micro if len(own)])
    total = float(documents.sum())
    # a micro-batch's time is spread over passes and stages as that of documents of its own mean length
    mean = case.table.of(min(case.table.lengths), np.array([(x**2).sum() / x.sum() for x in micro if len(x)]))
    shape = mean / mean.sum(axis=(1, 2), keepdims=True)
    lanes = (seconds * case.table.stages)[:, None, None] * shape
    return Lanes(
        lanes[None],
        total,
        total,
        float((documents**2).sum()),
        {w: share / total for w, share in sorted(shares.items())},
    )


def _micro_batch(documents: Floats, case: Case, shares: dict[int, float]) -> float:
    """Seconds on a stage of one micro-batch over all ranks."""
    table = case.table
    linear = table.linear_s() / table.tokens  # of a token
    attention, tokens = np.zeros(case.ranks), np.zeros(case.ranks)
    for width, length in sorted(_spread(documents, case, linear), reverse=True):
        own = _attention_s(width, length, case, linear)
        blocks = attention.reshape(-1, width).max(axis=1) + linear * 1e-3 * tokens.reshape(-1, width).max(axis=1)
        first = int(blocks.argmin()) * width
        attention[first : first + width] = attention[first : first + width].max() + own
        tokens[first : first + width] += length / width
        shares[width] = shares.get(width, 0.0) + length
    nodes = tokens.reshape(-1, min(case.per_node, case.ranks)).mean(axis=1)
    between = float(np.maximum(nodes - tokens.mean(), 0.0).max(initial=0.0))
    inside = float((tokens - np.repeat(nodes, len(tokens) // len(nodes))).max(initial=0.0))
    return float(linear * tokens.mean() + attention.max() + case.move_s(inside, between))


def _attention_s(width: int, length: float, case: Case, linear: float) -> float:
    """Seconds of a document's attention on each of its ranks, exposed exchange included."""
    return max(float(case.table.busy_s(width, length, length / width)) - linear * length / width, 0.0)


def _spread(documents: Floats, case: Case, linear: float) -> list[tuple[int, float]]:
    """(ranks, length): the fewest ranks that hold a document and whose part of it is no more than all ranks' mean."""
    known = sorted(case.table.lengths)
    cost = {w: case.table.busy_s(w, documents, documents / w) - linear * documents / w for w in known}
    held = np.array([documents <= case.capacity * w + 1e-6 for w in known])
    at_least = held.argmax(axis=0)
    area = sum(float(cost[known[w]][i]) * known[w] for i, w in enumerate(at_least.tolist()))
    mean = area / case.ranks
    out = []
    for i, first in enumerate(at_least.tolist()):
        choices = [w for w in known[first:] if float(cost[w][i]) <= mean]
        best = choices[0] if choices else min(known[first:], key=lambda w: float(cost[w][i]))
        out.append((best, float(documents[i])))
    return out
