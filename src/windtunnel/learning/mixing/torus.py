"""A torus of two dimensions, as square as the number of workers allows: each worker has four neighbours."""

from __future__ import annotations

from math import isqrt

from windtunnel.learning.mixing import GRAPHS, Edges, GraphKind


def sides(workers: int) -> tuple[int, int]:
    """(rows, columns), rows the largest divisor up to the square root."""
    rows = next(r for r in range(isqrt(workers), 0, -1) if workers % r == 0)
    return rows, workers // rows


def edges(workers: int) -> Edges:
    """Neighbours in rows and columns, both closed."""
    rows, columns = sides(workers)
    pairs = set()
    for r in range(rows):
        for c in range(columns):
            here = r * columns + c
            for there in (((r + 1) % rows) * columns + c, r * columns + (c + 1) % columns):
                if there != here:
                    pairs.add((min(here, there), max(here, there)))
    return tuple(sorted(pairs))


def problem(workers: int) -> str | None:
    """A prime number of workers has one row."""
    if sides(workers)[0] > 1:
        return None
    return "needs a number of workers with two factors above 1 (4, 6, 8, 9 …)"


GRAPHS.add(
    "torus",
    GraphKind(id="torus", summary="rows and columns that are closed: four neighbours", edges=edges, problem=problem),
)
