"""A hypercube: workers whose numbers differ in one binary digit are neighbours."""

from __future__ import annotations

from windtunnel.learning.mixing import GRAPHS, Edges, GraphKind


def edges(workers: int) -> Edges:
    """log₂ workers neighbours each."""
    digits = [1 << k for k in range((workers - 1).bit_length())]
    return tuple(sorted((i, i ^ d) for i in range(workers) for d in digits if i < i ^ d))


def problem(workers: int) -> str | None:
    """Powers of two alone have one."""
    return None if workers & (workers - 1) == 0 else "needs a power of two of workers (2, 4, 8, 16 …)"


GRAPHS.add(
    "hypercube",
    GraphKind(
        id="hypercube", summary="numbers that differ in one binary digit are joined", edges=edges, problem=problem
    ),
)
