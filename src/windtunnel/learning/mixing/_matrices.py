"""Matrices of a graph: mixing weights, their second eigenvalue, and the Laplacian."""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.learning.mixing import Edges


def degrees(edges: Edges, workers: int) -> Ints:
    """Neighbours of each worker, shape (workers,)."""
    return np.bincount(np.array(edges, dtype=np.int64).ravel(), minlength=workers)


def metropolis(edges: Edges, workers: int) -> Floats:
    """Symmetric weights of an average over neighbours: 1/(1 + the larger degree), the rest a worker's own.

    Rows and columns sum to 1. On graphs where all degrees are d, everyone has the weight 1/(d + 1).

    Source: Xiao, Boyd and Kim 2007, Distributed average consensus with least-mean-square deviation, section 4.

    Returns:
        Shape (workers, workers).
    """
    degree = degrees(edges, workers) if edges else np.zeros(workers, np.int64)
    out = np.zeros((workers, workers))
    for i, j in edges:
        out[i, j] = out[j, i] = 1.0 / (1.0 + max(degree[i], degree[j]))
    out[np.diag_indices(workers)] = 1.0 - out.sum(axis=1)
    return out


def second_eigenvalue(weights: Floats) -> float:
    """|λ₂|: by which the distance to the mean falls in a round, at worst."""
    magnitudes = np.sort(np.abs(np.linalg.eigvalsh(weights)))
    return float(magnitudes[-2]) if len(magnitudes) > 1 else 0.0


def laplacian(edges: Edges, workers: int) -> Floats:
    """Degrees on the diagonal, −1 for each edge; shape (workers, workers)."""
    out = np.zeros((workers, workers))
    for i, j in edges:
        out[i, j] = out[j, i] = -1.0
    out[np.diag_indices(workers)] = -out.sum(axis=1)
    return out


def contraction_and_resistance(edges: Edges, workers: int) -> tuple[float, float]:
    """(χ₁, χ₂) of a graph whose edges are drawn evenly, one a unit of time.

    χ₁: inverse of the smallest positive eigenvalue of the Laplacian over the number of edges. χ₂: half the largest
    resistance of an edge.

    Source: Nabli and Oyallon 2023 (arXiv 2208.00779), section 3.
    """
    weighted = laplacian(edges, workers) / len(edges)
    inverse = np.linalg.pinv(weighted)
    resistance = max(inverse[i, i] + inverse[j, j] - 2.0 * inverse[i, j] for i, j in edges)
    return 1.0 / float(np.linalg.eigvalsh(weighted)[1]), 0.5 * float(resistance)
