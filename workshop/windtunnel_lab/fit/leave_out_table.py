"""Errors and intervals of families, devices, frameworks or releases that were left out: `make leave-out BY=family`.

Everything that their rows set is fitted anew without them. Errors are kept in a file that is named by the content of
the product, the fit and the rows, so that a second table of the same state takes seconds. With `--stored`, errors are
those of the residual file that ships, which the calibration computed in the same way.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import windtunnel
import windtunnel_lab.fit
from windtunnel.arrays import Floats
from windtunnel.errors import BadInput
from windtunnel.training.uncertainty.comparable_runs import COLUMNS, WAYS, Residual, Subject, residuals
from windtunnel.validation.rows.row_files import load_rows, shipped_rows, with_shipped
from windtunnel_lab.fit.configurations import Configuration, site_names
from windtunnel_lab.fit.hierarchy import WAYS as UNITS
from windtunnel_lab.fit.hierarchy import Summary, shipped_edges
from windtunnel_lab.fit.leave_out import Errors, all_assumed_of, all_errors_without, record_of, write_errors

BY = ("family", "device", "framework", "release", "all")
_WAY = {"framework": "software"}
_READ = (".py", ".yaml", ".json")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Residuals that were predicted without their unit, with the intervals that they would have had."""

    units: list[str]
    errors: Floats
    """log(predicted / measured)."""
    edges: Floats

    @classmethod
    def of(cls, members: Sequence[Residual], way: str) -> LeftOut:
        """Residuals with an error of one way of leaving out, an entry of `hierarchy.WAYS`."""
        judged = [r for r in members if r.error(way) is not None]
        units = [UNITS[way](r) for r in judged]
        errors = np.log1p(np.array([r.error(way) for r in judged], dtype=np.float64))
        return cls(units=units, errors=errors, edges=shipped_edges(members, judged, units))

    @property
    def by_unit(self) -> list[UnitErrors]:
        """One line a unit."""
        return [self._unit(name) for name in sorted(set(self.units))]

    def _unit(self, name: str) -> UnitErrors:
        own = np.array([unit == name for unit in self.units])
        error, low, high = np.expm1(self.errors[own]), self.edges[own, 0], self.edges[own, 1]
        return UnitErrors(
            name=name,
            configurations=int(own.sum()),
            mean=float(np.abs(error).mean()),
            median=float(np.median(np.abs(error))),
            bias=float(error.mean()),
            coverage=float(((low <= self.errors[own]) & (self.errors[own] <= high)).mean()),
            width=float((np.exp(-low) - np.exp(-high)).mean()),
        )


def unit_errors(members: Sequence[Residual], way: str) -> list[UnitErrors]:
    """Errors and coverage of every unit, the unit's own errors left out of its intervals.

    Args:
        members: residuals.
        way: family, device or software.
    """
    return LeftOut.of(members, way).by_unit


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
    """Configurations with their errors and the terms of what they assume, as the residual file has them.

    Errors out of fold and scaled errors are those of the residual file, where it knows the rows.
    """
    together = site_names(sites)
    shipped = {r.ids: r for r in residuals()}
    out = []
    for c in found:
        own = dict(errors.get(c.ids, {}))
        known = shipped.get(c.ids)
        if known is not None and known.error("fold") is not None:
            own["fold"] = known.error("fold") or 0.0
        family = c.case.family
        out.append(
            Residual(
                subject=Subject(**dict(zip(COLUMNS, c.row[: len(COLUMNS)], strict=True))),
                family=family,
                site=together.get(family, family),
                ids=c.ids,
                assumed=assumed.get(c.ids, (0.0, 0.0)),
                errors=tuple(own.get(way) for way in WAYS),
                scaled=None if known is None else known.scaled,
            )
        )
    return out


def lines(left: LeftOut, by: str) -> list[str]:
    """The table as text: one line a unit, then all of them, units and rows weighted equally."""
    units = left.by_unit
    out = [f"{by + ' left out':28s} configurations    mean  median    bias  inside  width/error"]
    for u in units:
        ratio = u.width / u.mean if u.mean else float("nan")
        out.append(
            f"{u.name:28s} {u.configurations:14d} {u.mean:7.1%} {u.median:7.1%} {u.bias:+7.1%} {u.coverage:7.0%}"
            f" {ratio:12.1f}"
        )
    whole, count = Summary.of(left.errors, left.edges, left.units), len(left.units)
    median = float(np.median([u.mean for u in units]))
    for name, mean, middle, inside, ratio in (
        ("equally", whole.mean, f"{median:7.1%}", whole.coverage, whole.width_over_error),
        ("by rows", whole.mean_rows, " " * 7, whole.coverage_rows, whole.width_over_error_rows),
    ):
        out.append(
            f"{f'all, weighted {name}':28s} {count:14d} {mean:7.1%} {middle}         {inside:7.0%} {ratio:12.1f}"
        )
    return out


def of_releases(members: Sequence[Residual], found: Sequence[Configuration], errors: Errors) -> LeftOut:
    """Configurations that state a release, predicted without any row of that release."""
    pairs = [(r, c) for r, c in zip(members, found, strict=True) if "release" in errors.get(c.ids, {})]
    units = [c.release for _, c in pairs]
    sizes = np.log1p(np.array([errors[c.ids]["release"] for _, c in pairs]))
    return LeftOut(units=units, errors=sizes, edges=shipped_edges(members, [r for r, _ in pairs], units))


def state_of(rows: list[dict[str, Any]]) -> str:
    """Name of everything that errors follow from: files of the product and of the fit, and the rows."""
    digest = hashlib.sha256(json.dumps(rows, sort_keys=True).encode())
    for root in (Path(windtunnel.__file__).parent, Path(windtunnel_lab.fit.__file__).parent):
        for path in sorted(p for p in root.rglob("*") if p.suffix in _READ and "residuals" not in p.parts):
            digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """Errors of every way of leaving out, with what assumed settings add."""

    errors: Errors
    assumed: dict[tuple[str, ...], tuple[float, float]]

    @classmethod
    def of(cls, rows: list[dict[str, Any]], folder: Path) -> tuple[_Kept, list[Configuration], list[list[str]]]:
        """From the file of this state, or computed and written there; with configurations and sites."""
        from windtunnel_lab.fit.configurations import configurations
        from windtunnel_lab.fit.leave_out import read_spec

        path = folder / f"leave-out-{state_of(rows)}.json"
        if path.is_file():
            data = json.loads(path.read_text())
            errors = {tuple(one["ids"]): one["without"] for one in data}
            assumed = {tuple(one["ids"]): (one["assumed"][0], one["assumed"][1]) for one in data if one["assumed"]}
            return cls(errors=errors, assumed=assumed), configurations(rows), read_spec()["sites"]
        begun = time.perf_counter()
        record = record_of(rows)
        print(
            f"derivatives of {len(record.found)} configurations: {time.perf_counter() - begun:.0f} s", file=sys.stderr
        )
        errors = all_errors_without(rows, record, [*UNITS, "release"])
        found = cls(errors=errors, assumed=all_assumed_of(rows))
        kept = [{"ids": ids, "without": own, "assumed": found.assumed.get(ids)} for ids, own in sorted(errors.items())]
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(kept) + "\n", encoding="utf-8")
        print(f"refits and predictions: {time.perf_counter() - begun:.0f} s", file=sys.stderr)
        return found, record.found, record.spec["sites"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table of one way of leaving out, or of all; every error as JSON where asked for."""
    parser = argparse.ArgumentParser(prog="make leave-out", description=main.__doc__)
    parser.add_argument(
        "rows", type=Path, nargs="?", help="JSON list of measured rows, with those we ship; absent: ours"
    )
    parser.add_argument("--by", choices=(*BY, "software"), default="family")
    parser.add_argument("--out", type=Path, help="file for every configuration's errors")
    parser.add_argument("--cache", type=Path, default=Path("out/leave-out"), help="folder of errors that were computed")
    parser.add_argument("--stored", action="store_true", help="errors of the residual file instead of a refit")
    options = parser.parse_args(arguments)
    ways = [by for by in BY if by != "all"] if options.by == "all" else [options.by]
    if options.stored:
        if "release" in ways and options.by != "all":
            parser.error("--stored has no errors by release: leave --stored out, which refits")
        for by in ways:
            if by != "release":
                print("\n".join(lines(LeftOut.of(residuals(), _WAY.get(by, by)), by)))
        return 0
    try:
        rows = with_shipped(load_rows(options.rows)) if options.rows else shipped_rows()
    except BadInput as error:
        print(error, file=sys.stderr)
        return 2
    kept, found, sites = _Kept.of(rows, options.cache)
    if options.out:
        write_errors(options.out, found, kept.errors)
    members = residuals_of(found, kept.errors, sites, kept.assumed)
    for by in ways:
        left = of_releases(members, found, kept.errors) if by == "release" else LeftOut.of(members, _WAY.get(by, by))
        print("\n".join(lines(left, by)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
