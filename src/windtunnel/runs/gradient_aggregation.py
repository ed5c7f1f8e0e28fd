"""Rules that make one gradient of many, of which some are wrong; and what the flag mean costs."""

from __future__ import annotations

from typing import Literal

import numpy as np

from windtunnel.arrays import Floats


def mean(gradients: Floats) -> Floats:
    """Of all workers; gradients have shape (workers, parameters)."""
    return np.asarray(gradients.mean(axis=0))


def median(gradients: Floats) -> Floats:
    """Coordinate by coordinate."""
    return np.asarray(np.median(gradients, axis=0))


def trimmed_mean(gradients: Floats, wrong: int) -> Floats:
    """Coordinate by coordinate, without the `wrong` largest and smallest.

    Source: Yin et al. 2018 (arXiv 1803.01498), definition 2. Valid for: 2·wrong < workers.
    """
    ordered = np.sort(gradients, axis=0)
    return np.asarray(ordered[wrong : len(gradients) - wrong].mean(axis=0))


def krum(gradients: Floats, wrong: int) -> Floats:
    """The gradient with the smallest sum of squared distances to its nearest neighbours.

    Source: Blanchard et al. 2017 (arXiv 1703.02757), section 4. Valid for: 2·wrong + 2 < workers.
    """
    squares = ((gradients[:, None, :] - gradients[None, :, :]) ** 2).sum(axis=2)
    near = np.sort(squares, axis=1)[:, 1 : len(gradients) - wrong - 1]  # without itself
    return np.asarray(gradients[int(near.sum(axis=1).argmin())])


Lengths = Literal["full", "unit", "median"]
"""How long gradients count in a flag mean.

full: as they are. unit: all alike, and the sum is divided by the dimensions. median: all as long as the median one."""


def flag_mean(
    gradients: Floats,
    dimensions: int,
    *,
    rounds: int = 5,
    least: float = 1e-6,
    power: float = 0.5,
    lengths: Lengths = "full",
) -> Floats:
    """Mean of the gradients projected onto the subspace that explains most of the workers.

    Unit gradients are weighted by one over a power of what the subspace leaves of them, and the subspace is that of
    the leading singular vectors of the weighted ones, again and again.

    Args:
        gradients: Shape (workers, parameters). Where one is not finite, the plain mean is returned.
        dimensions: Of the subspace.
        rounds: Of reweighting.
        least: Share of a gradient that counts as left at least.
        power: ½: weights of its Beta(1, ½) likelihood. ¼: weights of the flag median, as the authors' code has them.
        lengths: See `Lengths`. Full-length gradients of the opposite sign lie in the subspace and count as they are
            long; the authors' code takes unit ones.

    Source: Almasi et al. 2023 (arXiv 2302.05865), section 2; their code, hamidralmasi/FlagAggregator,
    `aggregators/flag_median.py` and `center_algorithms_torch.py`.
    """
    if not np.isfinite(gradients).all():
        return np.asarray(gradients.mean(axis=0))
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    units = gradients / np.maximum(norms, np.finfo(np.float64).tiny)
    weights = np.ones(len(units))
    basis = np.empty((0, units.shape[1]))
    for _ in range(rounds):
        weighted = weights[:, None] * units
        values, vectors = np.linalg.eigh(weighted @ weighted.T)  # ascending; workers are few, parameters many
        leading = values[-dimensions:] > values[-1] * 1e-12  # fewer where gradients span fewer dimensions
        values, vectors = values[-dimensions:][leading], vectors[:, -dimensions:][:, leading]
        basis = (vectors / np.sqrt(values)).T @ weighted
        explained = ((units @ basis.T) ** 2).sum(axis=1)
        weights = np.maximum(1.0 - explained, least) ** -power
    if lengths == "full":
        joined = gradients.mean(axis=0)
    elif lengths == "unit":
        joined = units.sum(axis=0) / dimensions
    else:
        joined = units.mean(axis=0) * np.median(norms)
    return np.asarray(joined @ basis.T @ basis)
