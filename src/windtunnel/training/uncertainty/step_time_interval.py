"""Interval around a predicted step time, from errors of comparable measured runs that were predicted unseen.

Every measured configuration has the weight exp(−distance), where each difference in software, device, model class,
precision, scale, length, width or micro-batch adds its own distance. The distances are those that make intervals narrow
and right on the residuals themselves (`windtunnel_lab.fit.interval_width`); none is set by hand. An interval consists
of the weighted quantiles of the residuals, at the level that a finite sample needs to cover 80 % of new draws.

The residuals that count depend on what was measured. At a site of the record, with software and device measured
there, they are the errors out of fold. Everywhere else, which is every user's own cluster, they are errors of rows that
were predicted as if their whole family, a site with its software, had never been measured; each family is one unit, so
that the spread between sites sets the width. For a device without any row, errors with whole devices left out count
too, and so do the intervals of devices whose coefficients it takes: the widest holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats, Ints, Mask
from windtunnel.cost.coefficient_files import coefficient_file, nearest_generations
from windtunnel.cost.pooled import measured_generation
from windtunnel.training.results.records import Interval
from windtunnel.training.uncertainty.comparable_runs import WAYS, Residual, Subject, distances, residuals
from windtunnel.training.uncertainty.profile_coverage import NOTHING, Coverage

LEVEL = 0.8
_ENOUGH = 20.0
"""Least effective number of configurations that a band rests on, unless the residual file states another; distances
shrink together until it is met."""
_UNITS = 12.0
"""Least effective number of units (families, pairs of software and device) of a band for an unseen site or device."""
_SIGMAS = 1.2816
"""Standard errors to either side that hold 80 % of a normal distribution."""
_WORDS = {
    "fold": "out of fold",
    "family": "site not measured: errors of whole families left out",
    "device": "device not measured: errors with each device left out",
    "software": "software not measured: errors with each software left out",
}
_UNIT_WORDS = {"fold": "configurations", "family": "families"}


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


@cache
def _table(way: str) -> Table:
    return table_of(residuals(), way)


def ways_for(subject: Subject, table: Table, *, site_known: bool = False) -> tuple[str, ...]:
    """Ways of leaving out that resemble the measured rows of a run.

    Args:
        subject: the run.
        table: residuals out of fold.
        site_known: whether the run's site is one of the record's.
    """
    seen = table.words["device"] == subject.device
    if site_known and (seen & (table.words["software"] == subject.software)).any():
        return ("fold",)
    return ("family",) if seen.any() else ("family", "device")


def stand_ins(subject: Subject) -> tuple[Subject, ...]:
    """The same run on each measured device whose coefficients an unmeasured device takes; empty for measured ones.

    These are devices of its own generation, or of the one that stands in for it, under its software where any ran it.
    A device of a generation whose rows set no coefficient has them too, whatever its own rows say.
    """
    table = _table("family")
    taken = measured_generation(coefficient_file("fitted/pooled").get("pooled", {}), subject.generation)
    if taken == subject.generation and (not table.members or (table.words["device"] == subject.device).any()):
        return ()
    rows = [(g, table.words["generation"] == g) for g in nearest_generations(taken)]
    generation, of = next(((g, mask) for g, mask in rows if mask.any()), (taken, np.zeros(len(table.errors), bool)))
    own = of & (table.words["software"] == subject.software)
    devices = sorted(set(table.words["device"][own if own.any() else of].tolist()))
    return tuple(_on(subject, name, generation) for name in devices)


def _on(subject: Subject, device: str, generation: str) -> Subject:
    """The same run on another device; the signature names the device as well."""
    signature = subject.signature.replace(f"|{subject.device}x", f"|{device}x")
    return replace(subject, device=device, generation=generation, signature=signature)


def grade_of(subject: Subject, table: Table) -> str:
    """How near the measured software and devices are: fitted, analytic or assumed; `table` holds errors out of fold."""
    software, device = table.words["software"] == subject.software, table.words["device"] == subject.device
    if (software & device).any():
        return "fitted"
    return "analytic" if software.any() or device.any() else "assumed"


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


def band(subject: Subject, table: Table, way: str, apart: dict[str, float]) -> Band | None:
    """Band under one way of leaving out; None without residuals of other (model, cluster) groups.

    Intervals of unseen units are symmetric in the logarithm: a dozen of families do not tell their two tails apart.
    `apart` may hold `level` and `level_family`: nominal levels at which intervals cover 80 %.
    """
    used = table.words["signature"] != subject.signature
    if not used.any():
        return None
    away = distance(subject, table, apart)[used]
    share, unit, errors = table.share[used], table.unit[used], table.errors[used]
    wanted = min(apart.get("enough", _ENOUGH) if way == "fold" else _UNITS, 0.8 * len(np.unique(unit)))
    stretch = 1.0
    while True:
        weights = np.exp(-(away - away.min()) / stretch) * share
        counted = weights if way == "fold" else np.bincount(unit, weights)
        effective = float(counted.sum() ** 2 / (counted**2).sum())
        if effective >= wanted or stretch > 1e3:
            break
        stretch *= 1.25
    level = apart.get({"fold": "level", "family": "level_family"}.get(way, ""), LEVEL)
    share_in = min(0.98, level * (effective + 1.0) / effective)
    if way == "fold":
        low, high = _quantiles(errors, weights, (1 - share_in) / 2, (1 + share_in) / 2)
        return Band(min(low, 0.0), max(high, 0.0), effective, weights, used)
    (half,) = _quantiles(np.abs(errors), weights, share_in)
    return Band(-half, half, effective, weights, used)


def _quantiles(errors: Floats, weights: Floats, *shares: float) -> list[float]:
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
    low = high = 0.0
    texts: list[str] = []
    rows: list[str] = []
    ways = ways_for(subject, fold, site_known=site_known) if fold.members else ()
    for way in ways:
        found = _band_of(subject, way)
        if found is None:
            continue
        low, high = min(low, found.low), max(high, found.high)
        text, names = _basis_of(subject, way)
        texts.append(text)
        rows += names
    for other in stand_ins(subject):
        for way in ways_for(other, fold):
            if (found := _band_of(other, way)) is not None:
                low, high = min(low, found.low), max(high, found.high)
    if not texts:
        return Interval(LEVEL, step_time_s / 2, step_time_s * 2, "no measured rows ship: a factor of two", "assumed")
    if measured.share > 0.0 and ways != ("fold",) and (own := _band_of(subject, "fold")) is not None:
        low = -_with_profile(-low, -own.low, measured)
        high = _with_profile(high, own.high, measured)
        texts.append(f"{measured.share:.0%} of the step at rates of the profile, which make it ±{measured.error:.1%}")
    grade = grade_of(subject, fold)
    return Interval(
        LEVEL, step_time_s * math.exp(-high), step_time_s * math.exp(-low), "; ".join(texts), grade, tuple(rows)
    )


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
    what = _UNIT_WORDS.get(way, "units")
    return f"{found.effective:.0f} {what}, {_WORDS[way]}: {shown}", nearest


__all__ = ["LEVEL", "WAYS", "Band", "Table", "band", "distance", "grade_of", "interval_of", "table_of", "ways_for"]
