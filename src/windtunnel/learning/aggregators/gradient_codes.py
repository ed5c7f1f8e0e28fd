"""Gradient codes: every worker sends one combination of the gradients of several shards, and not all are needed."""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.learning.randomness import Draws


def cyclic(workers: int, late: int, draws: Draws) -> Floats:
    """Coefficients of a code whose worker i holds shards i … i + late, shape (workers, shards).

    Its rows lie in the null space of a random matrix of `late` rows whose columns sum to zero, as all ones do: any
    `workers` − `late` of them span that space.

    Source: Tandon et al. 2017 (arXiv 1612.03301), algorithm 2.
    """
    if late == 0:
        return np.eye(workers)
    null = draws.normals("gradient code", np.arange(late), 0, workers)
    null[:, -1] = -null[:, :-1].sum(axis=1)
    out = np.zeros((workers, workers))
    for i in range(workers):
        others = (i + 1 + np.arange(late)) % workers
        out[i, i] = 1.0
        out[i, others] = -np.linalg.solve(null[:, others], null[:, i])
    return out


def repetition(workers: int, late: int) -> Floats:
    """Groups of `late` + 1 workers that hold the same shards and send their sum, shape (workers, shards).

    Source: Tandon et al. 2017 (arXiv 1612.03301), algorithm 1. Valid for: `late` + 1 divides the workers.
    """
    group = np.arange(workers) // (late + 1)
    return np.asarray(group[:, None] == group[None, :], np.float64)


def decoding(code: Floats, answered: Ints) -> Floats:
    """Weights of the answers that sum up to the sum of all shards' gradients, shape (answers,).

    Raises:
        ValueError: these answers do not tell the sum.
    """
    rows = code[answered]
    weights = np.linalg.lstsq(rows.T, np.ones(code.shape[1]), rcond=None)[0]
    if np.abs(weights @ rows - 1.0).max() > 1e-6:
        raise ValueError(f"{len(answered)} answers do not tell the sum of {code.shape[1]} shards")
    return np.asarray(weights)
