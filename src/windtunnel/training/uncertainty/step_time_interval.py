"""Interval around a predicted step time, from errors of comparable measured runs that were predicted unseen.

Every measured configuration has the weight exp(−distance), where each difference in software, device, model class,
precision, scale, length, width or micro-batch adds its own distance. The distances are those that make intervals narrow
and right on the residuals themselves (`windtunnel_lab.fit.interval_width`); none is set by hand. An interval consists
of the weighted quantiles of the residuals, at the level that a finite sample needs to cover 80 % of new draws.

The residuals that count depend on what was measured. At a site of the record, with software and device measured
there, they are the errors out of fold. Everywhere else, which is every user's own cluster, they are errors of rows that
were predicted as if their whole family, a site with its software, had never been measured, about the centre and over
the standard error that a hierarchical model gives each of them (`hierarchical_errors`): each family is one unit, so
that the spread between sites sets the width, and what nobody measured widens it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats, Ints, Mask
from windtunnel.training.results.records import Interval
from windtunnel.training.uncertainty.comparable_runs import WAYS, Residual, Subject, distances, residuals
from windtunnel.training.uncertainty.hierarchical_errors import Predicted, predicted_error
from windtunnel.training.uncertainty.profile_coverage import NOTHING, Coverage

LEVEL = 0.8
_ENOUGH = 20.0
"""Least effective number of configurations that a band rests on, unless the residual file states another; distances
shrink together until it is met."""
_UNITS = 12.0
"""Least effective number of units (families, pairs of software and device) of a band for an unseen site or device."""
_SIGMAS = 1.2816
"""Standard errors to either side that hold 80 % of a normal distribution."""
_NEW = {"new_generation": "the device's generation", "new_engine": "the engine"}


@dataclass(frozen=True, slots=True)
class Table:
    """Residuals of one way of leaving out, as arrays of shape (n,)."""

    members: tuple[Residual, ...]
    errors: Floats
    """log(predicted / measured)."""
    words: dict[str, npt.NDArray[np.str_]]
    numbers: dict[str, Floats]
    """Base-two logarithms."""
    share: Floats
    """Weight before distances: rows of one group or unit share theirs."""
    unit: Ints
    """Index of the unit that a residual belongs to."""
    measurements: Floats
    """How many measurements a residual stands for."""


_NAMES = ("software", "root", "device", "generation", "vendor", "mixture", "across", "precision")
_KEPT = (*_NAMES, "signature")
_SCALES = ("devices", "seq_len", "hidden", "mbs")


def table_of(members: Sequence[Residual], way: str) -> Table:
    """Arrays of the residuals that have an error under one way of leaving out."""
    used = tuple(r for r in members if r.error(way) is not None)
    units: list[str] = []
    for r in used:
        if way == "fold":
            units.append(r.subject.signature)
        elif way == "family":
            units.append(r.site)
        elif way == "software":
            units.append(r.subject.software)
        else:
            units.append(f"{r.subject.software} on {r.subject.device}")
    names = sorted(set(units))
    unit = np.array([names.index(u) for u in units], dtype=np.int64)
    measurements = np.array([r.measurements for r in used], dtype=np.float64)
    count = np.bincount(unit, measurements, minlength=len(names))[unit] if used else np.ones(0)
    return Table(
        used,
        np.log1p(np.array([r.error(way) for r in used], dtype=np.float64)),
        {k: np.array([str(getattr(r.subject, k)) for r in used]) for k in _KEPT},
        {k: np.log2([float(max(getattr(r.subject, k), 1)) for r in used]) for k in _SCALES},
        measurements / (np.sqrt(count) if way == "fold" else count),
        unit,
        measurements,
    )


def scaled_table(members: Sequence[Residual]) -> Table:
    """Arrays of the residuals with a scaled error; each family is one unit."""
    used = table_of([r for r in members if r.scaled is not None], "family")
    return replace(used, errors=np.array([r.scaled for r in used.members], dtype=np.float64))


@cache
def _table(way: str) -> Table:
    return scaled_table(residuals()) if way == "family" else table_of(residuals(), way)


def way_for(subject: Subject, table: Table, *, site_known: bool = False) -> str:
    """The way of leaving out that resembles the measured rows of a run: `fold`, or `family` at every new site.

    Args:
        subject: the run.
        table: residuals out of fold.
        site_known: whether the run's site is one of the record's.
    """
    seen = (table.words["device"] == subject.device) & (table.words["software"] == subject.software)
    return "fold" if site_known and seen.any() else "family"


def grade_of(subject: Subject, table: Table) -> str:
    """How near the rows that set coefficients are; `table` holds errors out of fold.

    Fitted: its software on its device. Analytic: its software on another device, on a generation that has rows.
    Assumed: software or a generation that no row sets anything of.
    """
    software, device = table.words["software"] == subject.software, table.words["device"] == subject.device
    if (software & device).any():
        return "fitted"
    generation = table.words["generation"] == subject.generation
    return "analytic" if software.any() and generation.any() else "assumed"


def distance(subject: Subject, table: Table, apart: dict[str, float]) -> Floats:
    """Distance of each residual's run from `subject`, shape (n,)."""
    out = np.zeros(len(table.errors))
    for name in _NAMES:
        if weight := apart.get(name, 0.0):
            out += weight * (table.words[name] != str(getattr(subject, name)))
    for name in _SCALES:
        if weight := apart.get(name, 0.0):
            out += weight * np.abs(table.numbers[name] - math.log2(max(getattr(subject, name), 1)))
    return out


@dataclass(frozen=True, slots=True)
class Band:
    """Quantiles of log(predicted / measured), and the weights of the residuals that they come from."""

    low: float
    high: float
    effective: float
    """Effective number of configurations, or of units.

    A unit is a pair of software and device.
    """
    weights: Floats
    used: Mask


def weigh(subject: Subject, table: Table, way: str, apart: dict[str, float]) -> tuple[Floats, Mask, float] | None:
    """Weights of the residuals that count, which of them do, and their effective number.

    None without residuals of other (model, cluster) groups.
    """
    used = table.words["signature"] != subject.signature
    if not used.any():
        return None
    away = distance(subject, table, apart)[used]
    share, unit = table.share[used], table.unit[used]
    wanted = min(apart.get("enough", _ENOUGH) if way == "fold" else _UNITS, 0.8 * len(np.unique(unit)))
    stretch = 1.0
    while True:
        weights = np.exp(-(away - away.min()) / stretch) * share
        counted = weights if way == "fold" else np.bincount(unit, weights)
        effective = float(counted.sum() ** 2 / (counted**2).sum())
        if effective >= wanted or stretch > 1e3:
            return weights, used, effective
        stretch *= 1.25


def share_inside(level: float, effective: float) -> float:
    """The quantile that a finite sample needs to cover `level` of new draws."""
    return min(0.98, level * (effective + 1.0) / effective)


def band(subject: Subject, table: Table, way: str, apart: dict[str, float]) -> Band | None:
    """Band under one way of leaving out; None without residuals of other (model, cluster) groups.

    Intervals of unseen units are symmetric in the logarithm: a dozen of families do not tell their two tails apart.
    `apart` may hold `level` and `level_family`: nominal levels at which intervals cover 80 %.
    """
    found = weigh(subject, table, way, apart)
    if found is None:
        return None
    weights, used, effective = found
    share_in = share_inside(apart.get("level" if way == "fold" else "level_family", LEVEL), effective)
    errors = table.errors[used]
    if way == "fold":
        low, high = quantiles(errors, weights, (1 - share_in) / 2, (1 + share_in) / 2)
        return Band(min(low, 0.0), max(high, 0.0), effective, weights, used)
    (half,) = quantiles(np.abs(errors), weights, share_in)
    return Band(-half, half, effective, weights, used)


def about_centre(found: Predicted, half: float) -> tuple[float, float]:
    """(low, high) of log(predicted / measured) at a new site; the prediction itself lies inside.

    Args:
        found: centre and standard error.
        half: half-width in standard errors.
    """
    return min(found.centre - half * found.error, 0.0), max(found.centre + half * found.error, 0.0)


def quantiles(errors: Floats, weights: Floats, *shares: float) -> list[float]:
    """Weighted quantiles of errors."""
    order = np.argsort(errors)
    sums = np.cumsum(weights[order])
    at = (sums - 0.5 * weights[order]) / sums[-1]
    return [float(x) for x in np.interp(shares, at, errors[order])]


@lru_cache(maxsize=64)
def _band_of(subject: Subject, way: str) -> Band | None:
    """The band of a run under one way of leaving out; neighbouring plans and other questions of one run share it."""
    return band(subject, _table(way), way, distances())


@lru_cache(maxsize=64)
def _basis_of(subject: Subject, way: str) -> tuple[str, list[str]]:
    found = _band_of(subject, way)
    assert found is not None
    return _basis(_table(way), found, way)


def interval_of(
    subject: Subject, step_time_s: float, measured: Coverage = NOTHING, *, site_known: bool = False
) -> Interval:
    """80 % interval of a step time. Rows of the same model and cluster are left out, so no row supports itself.

    Args:
        subject: The run.
        step_time_s: Its predicted step time.
        measured: Coverage by the machine's own profile, which takes the spread between sites out of the interval.
        site_known: Whether the run's site is one of the record's: two plans on one cluster, rows of a known family.
    """
    fold = _table("fold")
    subject = replace(subject, plan="")  # intervals do not depend on it, and plans of one run share them
    way = way_for(subject, fold, site_known=site_known)
    found = _band_of(subject, way)
    if found is None:
        return Interval(LEVEL, step_time_s / 2, step_time_s * 2, "no measured rows ship: a factor of two", "assumed")
    text, rows = _basis_of(subject, way)
    texts, low, high = [text], found.low, found.high
    if way == "family":
        centre = predicted_error(subject)
        low, high = about_centre(centre, found.high)
        texts.append(_centre_words(centre))
        if measured.share > 0.0 and (own := _band_of(subject, "fold")) is not None:
            low = -_with_profile(-low, -own.low, measured)
            high = _with_profile(high, own.high, measured)
            texts.append(
                f"{measured.share:.0%} of the step at rates of the profile, which make it ±{measured.error:.1%}"
            )
    basis, grade = "; ".join(texts), grade_of(subject, fold)
    return Interval(LEVEL, step_time_s * math.exp(-high), step_time_s * math.exp(-low), basis, grade, tuple(rows))


def _centre_words(centre: Predicted) -> str:
    """What the hierarchical model says of a run, in words."""
    shift = f"comparable runs were predicted {abs(math.expm1(centre.centre)):.1%} too "
    words = [shift + ("long" if centre.centre > 0.0 else "short")]
    words += [f"no row sets a coefficient of {_NEW[name]}" for name in centre.new]
    return ", ".join(words)


def _with_profile(unmeasured: float, model: float, measured: Coverage) -> float:
    """End of a band where a profile states rates: errors of the model, of the profile, and of rates it does not state.

    Args:
        unmeasured: The end for software or a device without measured rows.
        model: The end where both have measured rows.
        measured: Coverage by the profile.
    """
    model = min(model, unmeasured)
    units = math.sqrt(unmeasured**2 - model**2) * (1.0 - min(measured.share, 1.0))
    return math.hypot(model, units, _SIGMAS * measured.error)


def _basis(table: Table, found: Band, way: str) -> tuple[str, list[str]]:
    """The residuals that an interval rests on, in words, and the rows that count most."""
    weights = found.weights / found.weights.sum()
    members = [r for r, used in zip(table.members, found.used, strict=True) if used]
    by: dict[str, float] = {}
    for r, w in zip(members, weights, strict=True):
        name = f"{r.family} ({r.subject.software} on {r.subject.device})"
        by[name] = by.get(name, 0.0) + float(w)
    top = sorted(by.items(), key=lambda kv: -kv[1])[:3]
    shown = ", ".join(f"{100 * w:.0f} % {name}" for name, w in top)
    nearest = [members[int(i)].ids[0] for i in np.argsort(-weights, kind="stable")[:5]]
    if way == "fold":
        return f"{found.effective:.0f} configurations, out of fold: {shown}", nearest
    return f"{found.effective:.0f} families, site not measured: errors of whole families left out: {shown}", nearest


__all__ = ["LEVEL", "WAYS", "Band", "Table", "band", "distance", "grade_of", "interval_of", "table_of", "way_for"]
