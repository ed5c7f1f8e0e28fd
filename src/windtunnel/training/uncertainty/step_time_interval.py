"""Band around a predicted step time, from errors of comparable measured runs that were predicted unseen.

Every measured configuration has the weight exp(−distance), where each difference in software, device, model class,
precision, scale, length, width or micro-batch adds its own distance. The distances are those that make bands narrow
and right on the residuals themselves (`validation.fit.interval_width`); none is set by hand. A band consists of the
weighted quantiles of the residuals, at the level that a finite sample needs to cover 80 % of new draws.

The residuals that count depend on what was measured. Where software and device were measured together, they are the
errors out of fold. Otherwise they are errors of rows that were predicted as if the pair, the device or the software
had never been measured; each pair of software and device is one unit, so that the offset between units sets the width,
as it does for the run in question.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats, Ints, Mask
from windtunnel.training.results.records import Interval
from windtunnel.training.uncertainty.comparable_runs import WAYS, Residual, Subject, distances, residuals
from windtunnel.training.uncertainty.profile_coverage import NOTHING, Coverage

LEVEL = 0.8
_ENOUGH = 20.0
"""Least effective number of configurations that a band rests on, unless the residual file states another; distances
shrink together until it is met."""
_UNITS = 12.0
"""Least effective number of units (pairs of software and device) where the pair was not measured."""
_SIGMAS = 1.2816
"""Standard errors to either side that hold 80 % of a normal distribution."""
_WORDS = {
    "fold": "out of fold",
    "pair": "software and device not measured together: errors of pairs left out",
    "device": "device not measured: errors with each device left out",
    "software": "software not measured: errors with each software left out",
}


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
        elif way == "software":
            units.append(r.subject.software)
        else:
            units.append(f"{r.subject.software} on {r.subject.device}")
    names = sorted(set(units))
    unit = np.array([names.index(u) for u in units], dtype=np.int64)
    count = np.bincount(unit, minlength=len(names))[unit] if used else np.ones(0)
    return Table(
        used,
        np.log1p(np.array([r.error(way) for r in used], dtype=np.float64)),
        {k: np.array([str(getattr(r.subject, k)) for r in used]) for k in _KEPT},
        {k: np.log2([float(max(getattr(r.subject, k), 1)) for r in used]) for k in _SCALES},
        1.0 / (np.sqrt(count) if way == "fold" else count),
        unit,
    )


@cache
def _table(way: str) -> Table:
    return table_of(residuals(), way)


def ways_for(subject: Subject, table: Table) -> tuple[str, ...]:
    """Ways of leaving out that resemble the measured rows of a run; `table` holds the residuals out of fold."""
    software, device = table.words["software"], table.words["device"]
    if ((software == subject.software) & (device == subject.device)).any():
        return ("fold",)
    seen = bool((device == subject.device).any())
    if (software == subject.software).any():
        return ("pair",) if seen else ("device",)
    return ("software",) if seen else ("software", "device")


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

    `apart` may hold `level`: the nominal level at which bands out of fold cover 80 %.
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
    level = apart.get("level", LEVEL) if way == "fold" else LEVEL
    share_in = min(0.98, level * (effective + 1.0) / effective)
    order = np.argsort(errors)
    sums = np.cumsum(weights[order])
    at = (sums - 0.5 * weights[order]) / sums[-1]
    low, high = np.interp([(1 - share_in) / 2, (1 + share_in) / 2], at, errors[order])
    return Band(min(float(low), 0.0), max(float(high), 0.0), effective, weights, used)


def interval_of(subject: Subject, step_time_s: float, measured: Coverage = NOTHING) -> Interval:
    """80 % band of a step time. Rows of the same model and cluster are left out, so no row supports itself.

    Args:
        subject: The run.
        step_time_s: Its predicted step time.
        measured: Coverage by the machine's own profile; it counts where software or device have no measured rows.
    """
    fold = _table("fold")
    low = high = 0.0
    texts: list[str] = []
    rows: list[str] = []
    ways = ways_for(subject, fold) if fold.members else ()
    for way in ways:
        table = _table(way)
        found = band(subject, table, way, distances())
        if found is None:
            continue
        low, high = -math.hypot(low, found.low), math.hypot(high, found.high)
        text, names = _basis(table, found, way)
        texts.append(text)
        rows += names
    if not texts:
        return Interval(LEVEL, step_time_s / 2, step_time_s * 2, "no measured rows ship: a factor of two", "assumed")
    if measured.share > 0.0 and ways != ("fold",) and (own := band(subject, fold, "fold", distances())) is not None:
        low = -_with_profile(-low, -own.low, measured)
        high = _with_profile(high, own.high, measured)
        texts.append(f"{measured.share:.0%} of the step at rates of the profile, which make it ±{measured.error:.1%}")
    grade = "fitted" if ways == ("fold",) else "analytic" if len(ways) == 1 else "assumed"
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
    """The residuals that a band rests on, in words, and the rows that count most."""
    weights = found.weights / found.weights.sum()
    members = [r for r, used in zip(table.members, found.used, strict=True) if used]
    by: dict[str, float] = {}
    for r, w in zip(members, weights, strict=True):
        name = f"{r.family} ({r.subject.software} on {r.subject.device})"
        by[name] = by.get(name, 0.0) + float(w)
    top = sorted(by.items(), key=lambda kv: -kv[1])[:3]
    shown = ", ".join(f"{100 * w:.0f} % {name}" for name, w in top)
    nearest = [members[int(i)].ids[0] for i in np.argsort(-weights, kind="stable")[:5]]
    what = "configurations" if way == "fold" else "units"
    return f"{found.effective:.0f} {what}, {_WORDS[way]}: {shown}", nearest


__all__ = ["LEVEL", "WAYS", "Band", "Table", "band", "distance", "interval_of", "table_of", "ways_for"]
