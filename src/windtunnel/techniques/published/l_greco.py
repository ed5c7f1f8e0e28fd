"""What `l-greco.yaml` changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from windtunnel import graph
from windtunnel.arrays import Floats
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.compression import GradientCompression
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.workload import TrainingSpec
from windtunnel.techniques.compressing import LIMITS, applies, with_gradients

BINS = 4000
"""Steps of the error budget in the dynamic programme."""


def tail(sides: int, ranks: Sequence[int], decay: float) -> Floats:
    """Share of a matrix's energy that each rank loses, where its i-th singular value falls as i to the power -decay."""
    energy = np.arange(1, sides + 1, dtype=np.float64) ** (-2.0 * decay)
    kept = np.cumsum(energy)
    return np.array([1.0 - kept[min(rank, sides) - 1] / kept[-1] for rank in ranks])


def cheapest(bytes_of: Floats, error_of: Floats, budget: float) -> list[int]:
    """Choice for each layer with fewest bytes and no more error than the budget: a knapsack by dynamic programme.

    Args:
        bytes_of: shape (layers, choices).
        error_of: of the same shape; rounded up to whole steps of the budget, so that the budget holds.
        budget: of all errors together.
    """
    layers = len(bytes_of)
    steps = np.ceil(error_of / budget * BINS - 1e-9).astype(np.int64)
    best = np.full(BINS + 1, np.inf)
    best[0] = 0.0
    taken = np.zeros((layers, BINS + 1), np.int64)
    for i in range(layers):
        after = np.full(BINS + 1, np.inf)
        for j, cost in enumerate(bytes_of[i]):
            used = int(steps[i, j])
            if used > BINS:
                continue
            reached = best[: BINS + 1 - used] + cost
            better = reached < after[used:]
            after[used:][better] = reached[better]
            taken[i, used:][better] = j
        best = after
    at = int(np.argmin(best))
    chosen = []
    for i in range(layers - 1, -1, -1):
        chosen.append(int(taken[i, at]))
        at -= int(steps[i, chosen[-1]])
    return chosen[::-1]


def ranks_of(model: ModelSpec, knobs: dict[str, Any]) -> dict[str, float]:
    """Rank of each operator."""
    g = graph.build(model, graph.Batch.train(1, 128))
    found: dict[str, tuple[float, float, float]] = {}
    blocks = [(g.blocks[kind], float(g.depth.count(kind))) for kind in g.blocks] + [(g.embedding, 1.0)]
    for block, count in blocks:
        for op in block.operators:
            if op.params > 0 and op.n > 1 and op.k > 1:
                found[op.name] = op.k, op.n, found.get(op.name, (0.0, 0.0, 0.0))[2] + count
    choices = sorted({max(1, round(knobs["rank"] * 2.0**p)) for p in range(-3, 4)} | {knobs["rank"]})
    names = list(found)
    bytes_of = np.array([[(k + n) * rank * times for rank in choices] for k, n, times in found.values()])
    error_of = np.array(
        [
            tail(int(min(k, n)), choices, knobs["decays"].get(name, knobs["decay"])) * k * n * times
            for name, (k, n, times) in found.items()
        ]
    )
    budget = float(error_of[:, choices.index(knobs["rank"])].sum())
    return {name: float(choices[j]) for name, j in zip(names, cheapest(bytes_of, error_of, budget), strict=True)}


def decide(
    plan: PlanSpec, model: ModelSpec, cluster: ClusterSpec, training: TrainingSpec, knobs: dict[str, Any]
) -> PlanSpec:
    del cluster, training
    given = GradientCompression(
        kind="low_rank", rank=knobs["rank"], error_feedback=True, by_operator=ranks_of(model, knobs)
    )
    return with_gradients(plan, given)


applies_to = applies
limits = LIMITS
