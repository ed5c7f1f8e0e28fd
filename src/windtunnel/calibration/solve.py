"""Least squares on logarithms of seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from windtunnel.arrays import Floats

_NOISE = 0.1
"""Scatter of one measurement around the model, in natural logarithms."""


def least_squares(
    model: Callable[[Floats], Floats],
    start: Sequence[float],
    measured: Floats,
    low: Sequence[float],
    high: Sequence[float],
    width: Sequence[float] | None = None,
) -> tuple[Floats, Floats]:
    """Positive parameters that bring a model nearest to measured seconds, by logs; and their relative errors.

    A soft loss keeps a few disturbed measurements from deciding.

    Args:
        model: seconds for parameters.
        start: first guess, and the middle of the priors.
        measured: seconds.
        low: least values.
        high: largest values.
        width: standard deviations of the priors, in logs; absent: no priors.
    """
    from scipy.optimize import least_squares as solve

    bounds = np.log(np.asarray(low)), np.log(np.asarray(high))
    first = np.clip(np.log(np.asarray(start)), *bounds)

    held = np.zeros(0) if width is None else _NOISE / np.asarray(width)

    def residual(x: Floats) -> Floats:
        told = np.log(model(np.exp(x)) / measured)
        return np.concatenate([told, held * (x - first)]) if len(held) else np.asarray(told)

    found = solve(residual, first, bounds=bounds, loss="soft_l1", f_scale=_NOISE)
    freedom = max(len(measured) - len(first), 1)
    spread = float(np.sum(found.fun**2)) / freedom
    spread = max(spread, _NOISE**2) if len(held) else spread
    curvature = np.linalg.pinv(found.jac.T @ found.jac)
    return np.exp(found.x), np.sqrt(np.maximum(np.diag(curvature) * spread, 0.0))
