"""The complete graph: everyone is everyone's neighbour, and one round gives the mean."""

from __future__ import annotations

from windtunnel.learning.mixing import GRAPHS, Edges, GraphKind


def edges(workers: int) -> Edges:
    """All pairs."""
    return tuple((i, j) for i in range(workers) for j in range(i + 1, workers))


GRAPHS.add("complete", GraphKind(id="complete", summary="everyone is joined with everyone", edges=edges))
