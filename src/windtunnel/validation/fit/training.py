"""Fit the few physical coefficients of a software generation on a device to measured step times.

Gauss–Newton on log residuals with a soft-L1 weight and Gaussian priors on log coefficients, so that a coefficient the
rows do not identify stays at its data-sheet or microbenchmark value. Folds leave out whole (model, cluster) groups.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.cost.coefficients import Coefficients
from windtunnel.validation.predict.with_coefficients import predict_with
from windtunnel.validation.rows.read_row import RowCase


@dataclass(frozen=True, slots=True)
class Parameter:
    """One coefficient to fit. `name` may name an entry of a table: `gemm_fraction.bf16`."""

    name: str
    prior: float
    sigma: float
    """Standard deviation of the prior, in log units."""
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class FitResult:
    """Fitted values with standard errors (log units, prior included) and in-sample residuals."""

    values: dict[str, float]
    errors: dict[str, float]
    residuals: Floats
    """log(predicted / measured)."""
    at: Floats
    """Logarithms of the values."""
    jacobian: Floats
    """Derivatives of the residuals by `at`, where the last step began; shape (rows, coefficients)."""


def fold_of(group: str, folds: int = 5) -> int:
    """Stable fold of a group."""
    return int(hashlib.sha256(group.encode()).hexdigest(), 16) % folds


def log_residuals(cases: Sequence[RowCase], values: dict[str, float], base: Coefficients | None = None) -> Floats:
    """log(predicted / measured) of each case's step time."""
    out = []
    for case in cases:
        sign = 1.0 if case.metrics[0].metric == "step_time" else -1.0
        out.append(sign * math.log(predict_with(case, values, base) / case.metrics[0].measured))
    return np.array(out)


def fit(
    cases: Sequence[RowCase],
    parameters: Sequence[Parameter],
    weights: Floats | None = None,
    *,
    noise: float = 0.03,
    iterations: int = 5,
    around: tuple[Floats, Floats] | None = None,
    report: Callable[[str], None] | None = None,
) -> FitResult:
    """Maximum a posteriori coefficients.

    Args:
        cases: rows to fit, each with a scenario and a first metric that follows from step time.
        parameters: what may move, with priors and bounds.
        weights: one a row (families of very different sizes).
        noise: standard deviation of a good row's log residual; rows beyond it count ever less (soft L1).
        iterations: Gauss–Newton steps.
        around: where to begin and the derivatives to keep, from a fit of rows that include these: steps then need no
            derivatives of their own, which a fold's solution, being close, does not miss.
        report: called with one line an iteration.
    """
    prior, sigma = np.array([math.log(p.prior) for p in parameters]), np.array([p.sigma for p in parameters])
    x = prior.copy() if around is None else around[0].copy()
    low = np.array([math.log(p.low) for p in parameters])
    high = np.array([math.log(p.high) for p in parameters])
    own = np.ones(len(cases)) if weights is None else weights

    def values(at: Floats) -> dict[str, float]:
        return {p.name: math.exp(v) for p, v in zip(parameters, at, strict=True)}

    def objective(r: Floats, at: Floats) -> float:
        z = r / noise
        return float((own * 2.0 * (np.sqrt(1.0 + z * z) - 1.0)).sum() + (((at - prior) / sigma) ** 2).sum())

    r = log_residuals(cases, values(x))
    best = objective(r, x)
    h = np.eye(len(x))
    jacobian = np.zeros((len(r), len(x))) if around is None else around[1]
    for step in range(iterations):
        for j in range(len(x)) if around is None else ():
            other = x.copy()
            delta = 0.03 if x[j] + 0.03 <= high[j] else -0.03
            other[j] += delta
            jacobian[:, j] = (log_residuals(cases, values(other)) - r) / delta
        w = own / np.sqrt(1.0 + (r / noise) ** 2) / noise**2
        h = jacobian.T @ (w[:, None] * jacobian) + np.diag(1.0 / sigma**2)
        g = jacobian.T @ (w * r) + (x - prior) / sigma**2
        direction = -np.linalg.solve(h, g)
        moved = False
        for scale in (1.0, 0.5, 0.2):
            trial = np.clip(x + scale * direction, low, high)
            rr = log_residuals(cases, values(trial))
            value = objective(rr, trial)
            if value < best - 1e-6:
                moved = best - value > 0.01 * abs(best)
                x, r, best = trial, rr, value
                break
        if report:
            mape = float(np.abs(np.expm1(r)).mean())
            found = ", ".join(f"{k} {v:.4g}" for k, v in values(x).items())
            report(f"step {step}: objective {best:.1f}, mean error {100 * mape:.2f} %, {found}")
        if not moved:
            break
    errors = np.sqrt(np.diag(np.linalg.inv(h)))
    return FitResult(values(x), {p.name: float(e) for p, e in zip(parameters, errors, strict=True)}, r, x, jacobian)
