"""One strategy for each layer: the fastest assignment that fits, by dynamic programming over layers and bytes.

A strategy is anything that can be chosen for a layer (tensor degree, sharding, recomputation). Layers run in turn:
their seconds and bytes add, and between two neighbours of unlike strategies the activations are laid out anew.

Source: Miao et al., Galvatron, PVLDB 16(3), 2022, arXiv 2211.13878, section 4.3: cost of the first layers within a
memory, over the strategy of the last of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.errors import Infeasible

UNITS = 512
"""Pieces into which the budget is cut. A layer's bytes are rounded up to them, so that no assignment goes over."""


@dataclass(frozen=True, slots=True)
class LayerCosts:
    """What each strategy costs in each layer."""

    seconds: Floats
    """Shape (layers, strategies): of a step; infinite, as its bytes, where a strategy cannot run."""
    nbytes: Floats
    """Shape (layers, strategies): held by one device."""
    reshard_s: Floats
    """Shape (strategies, strategies): between a layer of the first and a next one of the second; zero diagonal."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """A strategy for each layer."""

    strategy: Ints
    """Shape (layers,)."""
    seconds: float
    nbytes: float


def priced(costs: LayerCosts, strategy: Ints) -> Assignment:
    """What an assignment takes."""
    layers = np.arange(len(strategy))
    seconds = costs.seconds[layers, strategy].sum() + costs.reshard_s[strategy[:-1], strategy[1:]].sum()
    return Assignment(strategy, float(seconds), float(costs.nbytes[layers, strategy].sum()))


def uniform(costs: LayerCosts, budget_bytes: float) -> Assignment | None:
    """The fastest assignment of one strategy to all layers that fits; None where none does."""
    layers, count = costs.seconds.shape
    every = [priced(costs, np.full(layers, one, np.int64)) for one in range(count)]
    return min((a for a in every if a.nbytes <= budget_bytes), key=lambda a: a.seconds, default=None)


def assign(costs: LayerCosts, budget_bytes: float, units: int = UNITS) -> Assignment:
    """The fastest assignment that fits, exact up to the rounding of bytes; never worse than the best uniform one.

    Args:
        costs: of layers and of what lies between them.
        budget_bytes: of one device, for all layers.
        units: pieces of the budget; the table has layers × units × strategies entries.

    Raises:
        Infeasible: the layers take more than the budget whatever they are given.
    """
    layers, count = costs.seconds.shape
    share = np.where(np.isfinite(costs.nbytes), costs.nbytes / budget_bytes, 2.0)
    taken = np.ceil(share * units - 1e-9).astype(np.int64)
    best = np.full((units + 1, count), np.inf)
    before = np.zeros((layers, units + 1, count), np.int64)
    for s in range(count):
        if taken[0, s] <= units:
            best[taken[0, s], s] = costs.seconds[0, s]
    for layer in range(1, layers):
        joined = best[:, :, None] + costs.reshard_s
        parent, value = joined.argmin(1), joined.min(1)
        best = np.full_like(best, np.inf)
        for s in range(count):
            m = int(taken[layer, s])
            if m <= units:
                best[m:, s] = value[: units + 1 - m, s] + costs.seconds[layer, s]
                before[layer, m:, s] = parent[: units + 1 - m, s]
    plain = uniform(costs, budget_bytes)
    if not np.isfinite(best.min()):
        if plain is None:
            least = costs.nbytes.min(1).sum()
            raise Infeasible(
                f"the layers take {least / 2**30:.3g} GiB at least, the budget is {budget_bytes / 2**30:.3g}"
            )
        return plain
    unit, last = np.unravel_index(best.argmin(), best.shape)
    chosen, at = np.zeros(layers, np.int64), int(unit)
    chosen[-1] = last
    for layer in range(layers - 1, 0, -1):
        chosen[layer - 1] = before[layer, at, chosen[layer]]
        at -= int(taken[layer, chosen[layer]])
    found = priced(costs, chosen)
    return plain if plain is not None and plain.seconds < found.seconds else found
