"""Beta laws from counted successes: the posterior mode, and draws of (a, b) that carry the interval.

The likelihood is beta-binomial. Two weak priors keep laws from degenerating where few attempts are right:
ln min(a, b) ~ N(ln 0.25, 0.8) and logit of the mean ~ N(0, 6). docs/internals/population.md has the coverage of the
interval.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.errors import BadInput, Problem
from windtunnel.population.beta import Beta
from windtunnel.specs.population import Grade

PRIOR_MEDIAN, PRIOR_LOG_SD = 0.25, 0.8
"""Of min(a, b), over (model, task): the smaller one sets how fast the hardest (or easiest) problems give way. Laws of
public rows have medians of 0.3 (pre-trained models), 0.13 (one trained by reinforcement) and 0.37 (agents) and differ
by a factor of e^0.6; the spread is wider because these are few kinds of model."""
PRIOR_LOGIT_SD = 6.0
"""Of the mean success probability: public rows go from one right attempt in a million to nine of ten. A narrower one
draws the mean of rare successes upward."""
FEWEST_SAMPLES, ENOUGH_SAMPLES = 16, 100
"""Attempts at a problem: fewer are refused, fewer than the second widen the interval."""
FEWEST_PROBLEMS = 8
DRAWS = 200
_GRID, _REACH = 41, 5.0
_NEVER = 1e-9

LogDensity = Callable[[Floats, Floats], Floats]
"""Log of a density of (a, b), up to a constant, for arrays of both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A law with what is known of its error."""

    law: Beta
    draws: tuple[Beta, ...]
    """Laws that the data allow, equally likely; empty where no error is known."""
    grade: Grade
    why: str
    notes: tuple[str, ...] = ()
    """What a user should know about the fit: few samples, few successes."""


def log_prior(a: Floats, b: Floats) -> Floats:
    """Log density of both priors."""
    least = np.log(np.minimum(a, b) / PRIOR_MEDIAN) / PRIOR_LOG_SD
    logit = np.log(a / b) / PRIOR_LOGIT_SD
    density: Floats = -0.5 * (least * least + logit * logit)
    return density


def log_likelihood(correct: Floats, samples: Floats) -> LogDensity:
    """Beta-binomial log likelihood of counts, without the binomial coefficients.

    Args:
        correct: right attempts of each problem.
        samples: attempts of each problem.
    """
    pairs, counts = np.unique(np.stack([correct, samples]), axis=1, return_counts=True)
    c, n = pairs[0].astype(np.float64), pairs[1].astype(np.float64)

    def density(a: Floats, b: Floats) -> Floats:
        from scipy.special import betaln

        shape = (..., np.newaxis)
        each = betaln(a[shape] + c, b[shape] + (n - c)) - betaln(a, b)[shape]
        return np.asarray(each @ counts, np.float64)

    return density


def posterior(likelihood: LogDensity, start: Beta) -> tuple[Beta, tuple[Beta, ...]]:
    """Mode of likelihood × prior, and equally likely draws from it.

    The density is summed over a grid along its principal axes, in (logit of the mean, ln (a + b)); draws are its cells,
    taken at even steps of the accumulated weight: no random numbers.

    Args:
        likelihood: log likelihood.
        start: where the search for the mode begins.
    """
    from scipy.optimize import minimize

    def laws(x: Floats) -> tuple[Floats, Floats]:
        with np.errstate(over="ignore"):
            mean, total = 1.0 / (1.0 + np.exp(-x[..., 0])), np.exp(np.clip(x[..., 1], -30.0, 30.0))
            a = np.maximum(mean * total, 1e-12)
            b = np.maximum(total / (1.0 + np.exp(x[..., 0])), 1e-12)
        return a, b

    def density(x: Floats) -> Floats:
        a, b = laws(x)
        value: Floats = likelihood(a, b) + log_prior(a, b)
        return value

    found = minimize(
        lambda x: -float(density(np.asarray(x))),
        np.array([np.log(start.a / start.b), np.log(start.concentration)]),
        method="Nelder-Mead",
        options={"maxiter": 4000, "xatol": 1e-7, "fatol": 1e-9},
    )
    top = np.asarray(found.x, np.float64)
    axes = _axes(density, top)
    steps = np.linspace(-_REACH, _REACH, _GRID)
    grid = np.stack(np.meshgrid(steps, steps, indexing="ij"), axis=-1).reshape(-1, 2)
    cells = top + grid @ axes.T
    log = density(cells)
    weights = np.exp(log - log.max())
    order = np.argsort(cells[:, 0], kind="stable")
    reached = np.cumsum(weights[order]) / weights.sum()
    chosen = order[np.minimum(np.searchsorted(reached, (np.arange(DRAWS) + 0.5) / DRAWS), len(order) - 1)]
    a, b = laws(cells[chosen])
    first = laws(top)
    return Beta(float(first[0]), float(first[1])), tuple(Beta(float(x), float(y)) for x, y in zip(a, b, strict=True))


def _axes(density: Callable[[Floats], Floats], top: Floats) -> Floats:
    """Columns: standard deviations along the principal axes of the density's curvature at its mode."""
    h = 1e-2
    steps = np.array([[i, j] for i in (-h, 0.0, h) for j in (-h, 0.0, h)])
    f = density(top + steps).reshape(3, 3)
    xx = (f[2, 1] - 2 * f[1, 1] + f[0, 1]) / h**2
    yy = (f[1, 2] - 2 * f[1, 1] + f[1, 0]) / h**2
    xy = (f[2, 2] - f[2, 0] - f[0, 2] + f[0, 0]) / (4 * h**2)
    curvature, axes = np.linalg.eigh(-np.array([[xx, xy], [xy, yy]]))
    spread = 1.0 / np.sqrt(np.maximum(curvature, 1.0 / 25.0))
    scaled: Floats = axes * spread
    return scaled


def fit_counts(correct: Floats, samples: Floats, *, field: str = "samples") -> Fit:
    """A law from counted successes.

    Args:
        correct: right attempts of each problem, shape (problems,).
        samples: attempts at each problem, shape (problems,).
        field: what problems are reported of.

    Raises:
        BadInput: counts that cannot be, fewer than 8 problems or than 16 attempts at the middle problem.
    """
    c, n = np.asarray(correct, np.float64), np.asarray(samples, np.float64)
    problems = []
    if c.shape != n.shape or c.ndim != 1:
        raise BadInput(Problem(field, "must have as many numbers of attempts as of right ones"))
    for at in np.flatnonzero((c < 0) | (c > n) | (n < 1))[:5]:
        rule = f"must have from 0 to {n[at]:g} right attempts of {n[at]:g}"
        problems.append(Problem(f"{field}.{int(at)}", rule, float(c[at])))
    if len(c) < FEWEST_PROBLEMS:
        problems.append(Problem(field, f"must have {FEWEST_PROBLEMS} problems at least", len(c)))
    elif np.median(n) < FEWEST_SAMPLES:
        rule = f"must have {FEWEST_SAMPLES} attempts at a problem at least: fewer do not show how problems differ"
        problems.append(Problem(field, rule, float(np.median(n))))
    if problems:
        raise BadInput(problems)
    middle = float(np.median(n))
    share = float(np.clip(c.sum() / n.sum(), 1e-6, 1 - 1e-6))
    start = Beta(0.3, 0.3 * (1 - share) / share) if share < 0.5 else Beta(0.3 * share / (1 - share), 0.3)
    law, draws = posterior(log_likelihood(c, n), start)
    notes = []
    if middle < ENOUGH_SAMPLES:
        notes.append(
            f"{middle:g} attempts at a problem: below {ENOUGH_SAMPLES} the interval is wide "
            "(docs/internals/population.md)"
        )
    if c.sum() == 0:
        draws = (*draws[::2], *[Beta(_NEVER, 1.0)] * (len(draws) // 2))
        notes.append("no attempt was right: half of the interval says that none ever is, the rest is the priors'")
    elif c.sum() == n.sum():
        draws = (*draws[::2], *[Beta(1.0, _NEVER)] * (len(draws) // 2))
        notes.append("every attempt was right: half of the interval says that all always are, the rest is the priors'")
    why = f"Beta law of {len(c)} problems with {middle:g} attempts each"
    return Fit(law=law, draws=draws, grade="fitted", why=why, notes=tuple(notes))
