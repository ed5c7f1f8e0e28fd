"""Calibration of a sweep: `a + √(τ·x) + x`, x = S/b, from a handful of sizes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats


@dataclass(frozen=True, slots=True)
class ThreeTerm:
    """Fitted coefficients of one (operation, group)."""

    a_s: float
    bytes_per_s: float
    tau_s: float


def predict_three_term(fit: ThreeTerm, nbytes: npt.ArrayLike) -> Floats:
    """Seconds for sizes in bytes."""
    x = np.asarray(nbytes, dtype=np.float64) / fit.bytes_per_s
    return np.asarray(fit.a_s + np.sqrt(fit.tau_s * x) + x)


def fit_three_term(nbytes: npt.ArrayLike, seconds: npt.ArrayLike) -> ThreeTerm:
    """Least squares on relative errors with all three terms ≥ 0 (exact active-set search over the 7 sign patterns).

    Linear in (a, √(τ/b), 1/b), so no starting point and no iteration.

    Args:
        nbytes: Sizes, shape (k,), k ≥ 1.
        seconds: Measured times, shape (k,).

    Raises:
        ValueError: shapes differ, or a value is not positive.
    """
    size, t = np.asarray(nbytes, dtype=np.float64), np.asarray(seconds, dtype=np.float64)
    if size.shape != t.shape or size.ndim != 1 or not len(size):
        raise ValueError(f"nbytes {size.shape} and seconds {t.shape}: two lists of one length")
    if np.any(size <= 0) or np.any(t <= 0):
        raise ValueError("nbytes and seconds must be positive")
    columns = np.stack([np.ones_like(size), np.sqrt(size), size], axis=1) / t[:, None]
    best, error = np.zeros(3), np.inf
    for pattern in range(1, 8):
        use = [i for i in range(3) if pattern >> i & 1]
        if 2 not in use:
            continue
        part, *_ = np.linalg.lstsq(columns[:, use], np.ones(len(t)), rcond=None)
        if np.any(part < 0) or part[-1] <= 0:
            continue
        rest = float(np.sum((columns[:, use] @ part - 1.0) ** 2))
        if rest < error - 1e-15:
            best, error = np.zeros(3), rest
            best[use] = part
    if not np.isfinite(error):
        best[2] = float(np.mean(t / size))
    b = 1.0 / best[2]
    return ThreeTerm(float(best[0]), float(b), float(best[1] ** 2 * b))
