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
from windtunnel.validation.rows.read_row import RowCase
from windtunnel_lab.fit.with_coefficients import predict_with


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


def log_residuals(
    cases: Sequence[RowCase], values: dict[str, float], bases: Sequence[Coefficients] | None = None
) -> Floats:
    """log(predicted / measured) of each case's step time.

    Args:
        cases: rows.
        values: coefficients that are laid over.
        bases: the coefficients below, one record a case; absent: what the catalogue has.
    """
    out = []
    for index, case in enumerate(cases):
        sign = 1.0 if case.metrics[0].metric == "step_time" else -1.0
        base = None if bases is None else bases[index]
        out.append(sign * math.log(predict_with(case, values, base) / case.metrics[0].measured))
    return np.array(out)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Posterior:
    """What a fit minimises: weighted soft-L1 residuals plus Gaussian priors on the logarithms of the coefficients.

    Arrays over coefficients have shape (coefficients,), residuals shape (rows,).
    """

    cases: Sequence[RowCase]
    bases: Sequence[Coefficients] | None
    names: tuple[str, ...]
    weights: Floats
    """Weight of each row."""
    noise: float
    """Standard deviation of a good row's log residual."""
    prior: Floats
    sigma: Floats
    low: Floats
    high: Floats

    def values(self, at: Floats) -> dict[str, float]:
        """Coefficient → value at these logarithms."""
        return {name: math.exp(v) for name, v in zip(self.names, at, strict=True)}

    def residuals(self, at: Floats) -> Floats:
        """log(predicted / measured) of every row at these logarithms."""
        return log_residuals(self.cases, self.values(at), self.bases)

    def objective(self, residuals: Floats, at: Floats) -> float:
        """Twice the negative log posterior, up to a constant."""
        z = residuals / self.noise
        loss = (self.weights * 2.0 * (np.sqrt(1.0 + z * z) - 1.0)).sum()
        return float(loss + (((at - self.prior) / self.sigma) ** 2).sum())

    def fill_derivatives(self, jacobian: Floats, residuals: Floats, at: Floats) -> None:
        """Write the derivatives of the residuals into `jacobian` (rows, coefficients), by finite differences."""
        for j in range(len(at)):
            other = at.copy()
            delta = 0.03 if at[j] + 0.03 <= self.high[j] else -0.03
            other[j] += delta
            jacobian[:, j] = (self.residuals(other) - residuals) / delta

    def hessian_and_direction(self, jacobian: Floats, residuals: Floats, at: Floats) -> tuple[Floats, Floats]:
        """Gauss–Newton's approximation of the second derivatives, and the step that it proposes."""
        w = self.weights / np.sqrt(1.0 + (residuals / self.noise) ** 2) / self.noise**2
        h = jacobian.T @ (w[:, None] * jacobian) + np.diag(1.0 / self.sigma**2)
        g = jacobian.T @ (w * residuals) + (at - self.prior) / self.sigma**2
        return h, np.asarray(-np.linalg.solve(h, g), np.float64)


def _posterior(
    cases: Sequence[RowCase],
    bases: Sequence[Coefficients] | None,
    parameters: Sequence[Parameter],
    weights: Floats | None,
    noise: float,
) -> _Posterior:
    return _Posterior(
        cases=cases,
        bases=bases,
        names=tuple(p.name for p in parameters),
        weights=np.ones(len(cases)) if weights is None else weights,
        noise=noise,
        prior=np.array([math.log(p.prior) for p in parameters]),
        sigma=np.array([p.sigma for p in parameters]),
        low=np.array([math.log(p.low) for p in parameters]),
        high=np.array([math.log(p.high) for p in parameters]),
    )


def fit(
    cases: Sequence[RowCase],
    parameters: Sequence[Parameter],
    weights: Floats | None = None,
    *,
    bases: Sequence[Coefficients] | None = None,
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
        bases: coefficients below the fitted ones, one record a case; absent: what the catalogue has.
        noise: standard deviation of a good row's log residual; rows beyond it count ever less (soft L1).
        iterations: Gauss–Newton steps.
        around: where to begin and the derivatives to keep, from a fit of rows that include these: steps then need no
            derivatives of their own, which a fold's solution, being close, does not miss.
        report: called with one line an iteration.
    """
    p = _posterior(cases, bases, parameters, weights, noise)
    x = p.prior.copy() if around is None else around[0].copy()
    r = p.residuals(x)
    best = p.objective(r, x)
    h = np.eye(len(x))
    jacobian = np.zeros((len(r), len(x))) if around is None else around[1]
    for step in range(iterations):
        if around is None:
            p.fill_derivatives(jacobian, r, x)
        h, direction = p.hessian_and_direction(jacobian, r, x)
        moved = False
        for scale in (1.0, 0.5, 0.2):
            trial = np.clip(x + scale * direction, p.low, p.high)
            trial_r = p.residuals(trial)
            value = p.objective(trial_r, trial)
            if value < best - 1e-6:
                moved = best - value > 0.01 * abs(best)
                x, r, best = trial, trial_r, value
                break
        if report:
            mape = float(np.abs(np.expm1(r)).mean())
            found = ", ".join(f"{k} {v:.4g}" for k, v in p.values(x).items())
            report(f"step {step}: objective {best:.1f}, mean error {100 * mape:.2f} %, {found}")
        if not moved:
            break
    errors = np.sqrt(np.diag(np.linalg.inv(h)))
    return FitResult(p.values(x), {name: float(e) for name, e in zip(p.names, errors, strict=True)}, r, x, jacobian)
