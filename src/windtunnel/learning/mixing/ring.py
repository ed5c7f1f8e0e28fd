"""A ring: each worker has two neighbours."""

from __future__ import annotations

from windtunnel.learning.mixing import GRAPHS, Edges, GraphKind


def edges(workers: int) -> Edges:
    """Neighbours in the order of numbers, the last with the first."""
    pairs = {(min(i, j), max(i, j)) for i in range(workers) if (j := (i + 1) % workers) != i}
    return tuple(sorted(pairs))


GRAPHS.add("ring", GraphKind(id="ring", summary="each worker has two neighbours", edges=edges))
