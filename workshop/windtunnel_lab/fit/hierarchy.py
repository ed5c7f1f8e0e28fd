"""Parameters of the hierarchical model of errors at unmeasured sites, and its intervals for what was left out.

`training.uncertainty.hierarchical_errors` states the model. Families, devices and software that were left out whole
take part alike: each way of leaving out gives errors with other things unmeasured, and the likelihoods of the three add
up (a composite likelihood: Varin, Reid and Firth 2011).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize

from windtunnel.arrays import Floats
from windtunnel.training.uncertainty.comparable_runs import Residual, distances, shipped_variances
from windtunnel.training.uncertainty.hierarchical_errors import (
    LEVELS,
    UNMEASURED,
    VARIANCES,
    Measured,
    Predicted,
    Record,
    levels,
    thinned,
)
from windtunnel.training.uncertainty.step_time_interval import (
    Table,
    about_centre,
    quantiles,
    scaled_table,
    share_inside,
    weigh,
)

LEVEL = 0.8
_SIZE = 0.15
"""Scale of the half-normal prior on standard deviations, logarithms of step time."""
_LEAST, _MOST = 0.003, 0.6
"""Least and most that a standard deviation can be."""
_EACH = 6
"""Rows of one site and cell in the likelihood of variances."""
_LEVELS = (0.66, 0.68, 0.7, 0.72, 0.74, 0.76, 0.78, 0.8, 0.82)
_WIDEST = 3.45
"""Most that the mean width should be over the mean error, units weighted equally; the bar is 3.5."""
WAYS: dict[str, Callable[[Residual], str]] = {
    "family": lambda r: r.site,
    "device": lambda r: r.subject.device,
    "software": lambda r: r.subject.software,
}
"""Way of leaving out → the unit that a residual leaves with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _LeftOut:
    """Errors of one way of leaving out, with what was measured when each was made; arrays of shape (n,)."""

    members: list[Residual]
    units: list[str]
    measured: list[Measured]
    errors: Floats
    """log(predicted / measured)."""

    @classmethod
    def of(cls, members: Sequence[Residual], way: str) -> _LeftOut:
        """Residuals that have an error of this way."""
        used = [r for r in members if r.error(way) is not None]
        units = [WAYS[way](r) for r in used]
        rest = {name: Measured.of([r for r in members if WAYS[way](r) != name]) for name in set(units)}
        errors = np.log1p(np.array([r.error(way) for r in used], dtype=np.float64))
        return cls(members=used, units=units, measured=[rest[name] for name in units], errors=errors)


def fit_variances(members: Sequence[Residual]) -> dict[str, float]:
    """Variances of `VARIANCES` by restricted maximum likelihood."""
    parts = [_parts(_LeftOut.of(members, way)) for way in WAYS]

    def objective(logs: Floats) -> tuple[float, Floats]:
        variances = np.exp(2.0 * logs)
        value, slope = 0.5 * float(variances.sum()) / _SIZE**2, 0.5 / _SIZE**2 * np.ones(len(logs))
        for errors, shared in parts:
            own_value, own_slope = _restricted(errors, shared, variances)
            value += own_value / len(parts)
            slope += own_slope / len(parts)
        return value, slope * 2.0 * variances

    start = np.full(len(VARIANCES), math.log(0.05))
    bounds = [(math.log(_LEAST), math.log(_MOST))] * len(VARIANCES)
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return {name: round(float(v), 7) for name, v in zip(VARIANCES, np.exp(2.0 * found.x), strict=True)}


def _parts(left: _LeftOut) -> tuple[Floats, Floats]:
    """Errors of thinned rows, shape (n,), and which of them share each effect, shape (variances, n, n)."""
    own = [levels(r.subject, r.site) for r in left.members]
    kept = thinned(own, _EACH)
    names = np.array([own[i] for i in kept])
    units = np.array([left.units[i] for i in kept])
    new = np.array([left.measured[i].new(left.members[i].subject) for i in kept], dtype=np.float64)
    shared = [(column[:, None] == column[None, :]).astype(np.float64) for column in names.T]
    together = units[:, None] == units[None, :]
    shared += [column[:, None] * column[None, :] * together for column in new.T]
    assert len(shared) == len(LEVELS) + len(UNMEASURED)
    return left.errors[kept], np.array([*shared, np.eye(len(kept))])


def _restricted(errors: Floats, shared: Floats, variances: Floats) -> tuple[float, Floats]:
    """Negative restricted log likelihood and its derivatives by the variances."""
    covariance = np.tensordot(variances, shared, axes=1)
    inverse = np.linalg.inv(covariance)
    ones = inverse.sum(axis=1)
    total = ones.sum()
    projected = inverse - np.outer(ones, ones) / total
    weighted = projected @ errors
    value = 0.5 * (float(np.linalg.slogdet(covariance)[1]) + math.log(total) + float(errors @ weighted))
    slope = 0.5 * (np.einsum("kij,ij->k", shared, projected) - np.einsum("kij,i,j->k", shared, weighted, weighted))
    return value, slope


def scaled_errors(members: Sequence[Residual], variances: dict[str, float]) -> list[Residual]:
    """Residuals with their errors about the centre that the other families give, over its standard error."""
    known = [r for r in members if r.error("family") is not None]
    out: dict[tuple[str, ...], float] = {}
    for site in sorted({r.site for r in known}):
        record = Record([r for r in members if r.site != site])
        for r in known:
            if r.site == site:
                found = record.predict(r.subject, variances)
                out[r.ids] = round((math.log1p(r.error("family") or 0.0) - found.centre) / found.error, 4)
    return [replace(r, scaled=out.get(r.ids)) for r in members]


def best_level(members: Sequence[Residual], apart: dict[str, float], variances: dict[str, float]) -> float:
    """The nominal level at which intervals hold 80 % of what was left out, and are no wider than they may be.

    Args:
        members: Residuals with scaled errors.
        apart: Distances between runs.
        variances: Entry of `VARIANCES` → variance.
    """
    amiss = np.zeros(len(_LEVELS))
    for way, unit_of in WAYS.items():
        judged = [r for r in members if r.error(way) is not None]
        errors = np.log1p(np.array([r.error(way) for r in judged], dtype=np.float64))
        units = [unit_of(r) for r in judged]
        for k, edges in enumerate(edges_left_out(members, judged, units, (apart, variances), _LEVELS)):
            found = Summary.of(errors, edges, units)
            amiss[k] += abs(found.coverage - LEVEL) + abs(found.coverage_rows - LEVEL)
            amiss[k] += 0.5 * max(0.0, found.width_over_error - _WIDEST)
    return _LEVELS[int(np.argmin(amiss))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Errors and intervals of what was left out, units weighted equally and rows weighted equally."""

    mean: float
    """Mean absolute error, relative."""
    mean_rows: float
    coverage: float
    coverage_rows: float
    width_over_error: float
    """Mean width over mean error."""
    width_over_error_rows: float

    @classmethod
    def of(cls, errors: Floats, edges: Floats, units: Sequence[str]) -> Summary:
        """Summary of log(predicted / measured), shape (n,), and its intervals, shape (n, 2)."""
        size = np.abs(np.expm1(errors))
        inside = ((edges[:, 0] <= errors) & (errors <= edges[:, 1])).astype(np.float64)
        width = np.exp(-edges[:, 0]) - np.exp(-edges[:, 1])
        count = Counter(units)
        share = np.array([1.0 / count[name] for name in units])
        mean, coverage, wide = (float(np.average(values, weights=share)) for values in (size, inside, width))
        return cls(
            mean=mean,
            mean_rows=float(size.mean()),
            coverage=coverage,
            coverage_rows=float(inside.mean()),
            width_over_error=wide / mean,
            width_over_error_rows=float(width.mean() / size.mean()),
        )


def edges_left_out(
    members: Sequence[Residual],
    judged: Sequence[Residual],
    units: Sequence[str],
    model: tuple[dict[str, float], dict[str, float]],
    nominal: Sequence[float],
) -> list[Floats]:
    """(low, high) of log(predicted / measured) of what was left out, for each nominal level; shape (n, 2) each.

    No row of a unit takes part in its intervals. Terms of what was assumed are in them.

    Args:
        members: Residuals of the record, with scaled errors.
        judged: Residuals that left it.
        units: Name of the unit that each left with.
        model: Distances between runs, and variances.
        nominal: Levels.
    """
    apart, variances = model
    out = [np.zeros((len(judged), 2)) for _ in nominal]
    seen: dict[tuple[object, ...], list[tuple[float, float]]] = {}
    for name in sorted(set(units)):
        inside = [i for i, unit in enumerate(units) if unit == name]
        left = {judged[i].ids for i in inside}
        rest = [r for r in members if r.ids not in left]
        record, table = Record(rest), scaled_table(rest)
        for i in inside:
            r = judged[i]
            key = (name, *r.subject.columns()[:-1], *r.assumed)
            if key not in seen:
                seen[key] = _edges(r, record.predict(r.subject, variances), table, apart, nominal)
            for edges, own in zip(out, seen[key], strict=True):
                edges[i] = own
    return out


def _edges(
    r: Residual, centre: Predicted, table: Table, apart: dict[str, float], nominal: Sequence[float]
) -> list[tuple[float, float]]:
    """Ends of one run's interval for each nominal level."""
    found = weigh(r.subject, table, "family", apart)
    if found is None:
        return [(0.0, 0.0) for _ in nominal]
    weights, used, effective = found
    halves = quantiles(np.abs(table.errors[used]), weights, *(share_inside(level, effective) for level in nominal))
    shorter, longer = r.assumed
    ends = [about_centre(centre, half) for half in halves]
    return [(-math.hypot(low, longer), math.hypot(high, shorter)) for low, high in ends]


def shipped_edges(members: Sequence[Residual], judged: Sequence[Residual], units: Sequence[str]) -> Floats:
    """`edges_left_out` with the distances, variances and level that ship."""
    apart = distances()
    model = (apart, shipped_variances())
    return edges_left_out(members, judged, units, model, [apart.get("level_family", LEVEL)])[0]
