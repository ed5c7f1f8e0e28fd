"""Errors of families, devices, software or releases that were left out whole: `make leave-out BY=family`.

Everything that their rows set is fitted anew without them. With `--stored`, the errors are those of the residual file
that ships, which the calibration computed in the same way.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.errors import BadInput
from windtunnel.training.uncertainty.comparable_runs import COLUMNS, WAYS, Residual, Subject, distances, residuals
from windtunnel.training.uncertainty.step_time_interval import table_of
from windtunnel.validation.rows.row_files import load_rows, shipped_rows
from windtunnel_lab.fit.configurations import Configuration, configurations, site_names
from windtunnel_lab.fit.interval_width import bands
from windtunnel_lab.fit.leave_out import Errors, all_assumed_of, all_errors_without, record_of, write_errors

BY = ("family", "device", "software", "release")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitErrors:
    """What was predicted of one unit when nothing that its rows set was known."""

    name: str
    configurations: int
    mean: float
    """Mean absolute error of step time, relative."""
    median: float
    bias: float
    """Mean error."""
    coverage: float
    """Share of the measurements inside the 80 % interval."""
    width: float
    """Mean width of the interval, relative to the prediction."""


def unit_errors(members: Sequence[Residual], way: str) -> list[UnitErrors]:
    """Errors and coverage of every unit, the unit's own errors left out of its intervals.

    Args:
        members: residuals with an error under that way.
        way: family, device or software.
    """
    table = table_of(members, way)
    edges = bands(table, way, distances())
    names = [r.site if way == "family" else getattr(r.subject, way) for r in table.members]
    return [_of_unit(name, names, table.errors, edges) for name in sorted(set(names))]


def _of_unit(name: str, names: list[str], errors: Floats, edges: Floats) -> UnitErrors:
    own = np.array([n == name for n in names])
    error, low, high = np.expm1(errors[own]), edges[own, 0], edges[own, 1]
    return UnitErrors(
        name=name,
        configurations=int(own.sum()),
        mean=float(np.abs(error).mean()),
        median=float(np.median(np.abs(error))),
        bias=float(error.mean()),
        coverage=float(((low <= errors[own]) & (errors[own] <= high)).mean()),
        width=float((np.exp(-low) - np.exp(-high)).mean()),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Overall:
    """Units weighted equally."""

    mean: float
    median: float
    """Median over units of their mean errors."""
    coverage: float
    width_over_error: float
    """Mean width over mean error."""

    @classmethod
    def of(cls, units: Sequence[UnitErrors]) -> Overall:
        """Summary of some units."""
        means = [u.mean for u in units]
        return cls(
            mean=float(np.mean(means)),
            median=float(np.median(means)),
            coverage=float(np.mean([u.coverage for u in units])),
            width_over_error=float(np.mean([u.width for u in units]) / np.mean(means)),
        )


def residuals_of(
    found: Sequence[Configuration],
    errors: Errors,
    sites: Sequence[Sequence[str]],
    assumed: dict[tuple[str, ...], tuple[float, float]],
) -> list[Residual]:
    """Configurations with their errors and the terms of what they assume, as the residual file has them."""
    together = site_names(sites)
    out = []
    for c in found:
        own = errors.get(c.ids, {})
        subject = Subject(**dict(zip(COLUMNS, c.row[: len(COLUMNS)], strict=True)))
        family = c.case.family
        values = tuple(own.get(way) for way in WAYS)
        out.append(
            Residual(
                subject=subject,
                family=family,
                site=together.get(family, family),
                ids=c.ids,
                assumed=assumed.get(c.ids, (0.0, 0.0)),
                errors=values,
            )
        )
    return out


def lines(units: Sequence[UnitErrors], way: str) -> list[str]:
    """The table as text: one line a unit, then all of them weighted equally."""
    head = f"{way + ' left out':28s} configurations    mean  median    bias  in band  width/error"
    out = [head]
    for u in units:
        ratio = u.width / u.mean if u.mean else float("nan")
        out.append(
            f"{u.name:28s} {u.configurations:14d} {u.mean:7.1%} {u.median:7.1%} {u.bias:+7.1%} {u.coverage:8.0%}"
            f" {ratio:12.1f}"
        )
    whole, count = Overall.of(units), sum(u.configurations for u in units)
    out.append(
        f"{'all, weighted equally':28s} {count:14d} {whole.mean:7.1%} {whole.median:7.1%}"
        f"         {whole.coverage:8.0%} {whole.width_over_error:12.1f}"
    )
    return out


def release_lines(found: Sequence[Configuration], errors: Errors) -> list[str]:
    """One line a release: mean and median error of its configurations with the release left out."""
    by: dict[str, list[float]] = {}
    for c in found:
        if "release" in errors.get(c.ids, {}):
            by.setdefault(c.release, []).append(abs(errors[c.ids]["release"]))
    out = [f"{'release left out':28s} configurations    mean  median"]
    out += [
        f"{name:28s} {len(sizes):14d} {np.mean(sizes):7.1%} {np.median(sizes):7.1%}"
        for name, sizes in sorted(by.items())
    ]
    means = [float(np.mean(sizes)) for sizes in by.values()]
    if means:
        out.append(f"{'all, weighted equally':28s} {sum(map(len, by.values())):14d} {np.mean(means):7.1%}")
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table of one way of leaving out; every error as JSON where asked for."""
    parser = argparse.ArgumentParser(prog="make leave-out", description=main.__doc__)
    parser.add_argument("rows", type=Path, nargs="?", help="JSON list of measured rows; absent: the rows we ship")
    parser.add_argument("--by", choices=BY, default="family")
    parser.add_argument("--out", type=Path, help="file for every configuration's errors")
    parser.add_argument("--stored", action="store_true", help="errors of the residual file instead of a refit")
    options = parser.parse_args(arguments)
    if options.stored and options.by == "release":
        parser.error("--stored has no errors by release: leave --stored out, which refits")
    begun = time.perf_counter()
    if options.stored:
        print("\n".join(lines(unit_errors(residuals(), options.by), options.by)))
        return 0
    try:
        rows = load_rows(options.rows) if options.rows else shipped_rows()
    except BadInput as error:
        print(error, file=sys.stderr)
        return 2
    record = record_of(rows)
    taken = time.perf_counter()
    print(f"derivatives of {len(record.found)} configurations: {taken - begun:.0f} s", file=sys.stderr, flush=True)
    errors = all_errors_without(rows, record.derivatives, [options.by])
    if options.out:
        write_errors(options.out, configurations(rows), errors)
    if options.by == "release":
        print("\n".join(release_lines(record.found, errors)))
    else:
        members = residuals_of(record.found, errors, record.spec["sites"], all_assumed_of(rows))
        print("\n".join(lines(unit_errors(members, options.by), options.by)))
    print(f"refits and predictions: {time.perf_counter() - taken:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
