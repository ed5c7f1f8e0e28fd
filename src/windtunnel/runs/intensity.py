"""Grams of CO₂ a kilowatt-hour over time: of a grid of the catalogue, or of a file of hours."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.catalog.run_tables import Grid, grid
from windtunnel.errors import BadInput, Problem
from windtunnel.files import reading
from windtunnel.specs.run import GridSpec

_HOUR_S = 3600.0
_MOST_HOURS = 24 * 366 * 30


@dataclass(frozen=True, slots=True)
class Intensity:
    """A step function: entry i holds from `time_s[i]` to the next one, the last one for ever."""

    time_s: Floats
    g_per_kwh: Floats

    def integral(self, moments: Floats) -> Floats:
        """Gram-seconds a kilowatt-hour from the first entry to each moment."""
        edges = np.append(self.time_s, max(self.time_s[-1] + _HOUR_S, float(np.max(moments)) + 1.0))
        summed = np.concatenate([[0.0], np.cumsum(self.g_per_kwh * np.diff(edges))])
        found: Floats = np.interp(moments, edges, summed)
        return found

    def mean(self, start_s: float, span_s: float) -> float:
        """Mean over a stretch."""
        if span_s <= 0:
            return self.at(start_s)
        ends = self.integral(np.array([start_s, start_s + span_s]))
        return float(ends[1] - ends[0]) / span_s

    def at(self, moment_s: float) -> float:
        """Value at a moment."""
        return float(self.g_per_kwh[max(int(np.searchsorted(self.time_s, moment_s, side="right")) - 1, 0)])

    def least_mean(self, first_s: float, slack_s: float, span_s: float) -> tuple[float, float]:
        """Start within a slack after a moment with the least mean over a stretch from there: (seconds, mean).

        The mean is linear between changes of the grid at either end of the stretch, so that only those are looked at.
        """
        starts = np.concatenate([[first_s, first_s + slack_s], self.time_s, self.time_s - span_s])
        starts = np.unique(starts[(starts >= first_s) & (starts <= first_s + slack_s)])
        means = (self.integral(starts + span_s) - self.integral(starts)) / max(span_s, 1e-9)
        best = int(np.argmin(means))
        return float(starts[best]), float(means[best])


def intensity_of(where: str | GridSpec, start: datetime, span_s: float, folder: Path, field: str) -> Intensity:
    """Values from a start on, as seconds after it.

    Args:
        where: a grid of the catalogue, one value, or a file of hours.
        start: moment of second 0; without a time zone it is UTC.
        span_s: seconds that have to be known.
        folder: what a file is relative to.
        field: where the grid is written, for errors.

    Raises:
        BadInput: the grid is not known, or its file cannot be read or does not hold the hours.
    """
    if isinstance(where, str):
        return _of_catalogue(grid(where, field), start, span_s)
    if where.g_co2_per_kwh is not None:
        return Intensity(np.zeros(1), np.array([where.g_co2_per_kwh]))
    begin = start.astimezone(UTC).replace(tzinfo=None) if start.tzinfo else start
    times, values = _read(folder / (where.file or ""), field)
    if times[0] > begin or begin + timedelta(seconds=span_s) > times[-1] + timedelta(days=1):
        rule = f"must hold the {span_s / 86400:.1f} days from {begin.isoformat()}"
        raise BadInput(Problem(f"{field}.file", rule, f"{times[0]} to {times[-1]}"))
    return Intensity(np.array([(t - begin).total_seconds() for t in times]), np.array(values))


def year_mean(where: str | GridSpec, folder: Path, field: str) -> float:
    """Mean over all hours that are known.

    Raises:
        BadInput: as `intensity_of`.
    """
    if isinstance(where, str):
        return grid(where, field).g_co2_per_kwh
    if where.g_co2_per_kwh is not None:
        return where.g_co2_per_kwh
    return float(np.mean(_read(folder / (where.file or ""), field)[1]))


def _of_catalogue(known: Grid, start: datetime, span_s: float) -> Intensity:
    """Hours of the day (UTC) and months."""
    begin = start.astimezone(UTC) if start.tzinfo else start.replace(tzinfo=UTC)
    whole = begin.replace(minute=0, second=0, microsecond=0)
    count = min(int(span_s / _HOUR_S) + 2, _MOST_HOURS)
    first = (whole - begin).total_seconds()
    moments = [whole + timedelta(hours=i) for i in range(count)]
    values = [known.g_co2_per_kwh * known.hours[m.hour] * known.months[m.month - 1] for m in moments]
    return Intensity(first + _HOUR_S * np.arange(count, dtype=np.float64), np.array(values, np.float64))


def _read(path: Path, field: str) -> tuple[list[datetime], list[float]]:
    def refuse(rule: str, value: object = None) -> BadInput:
        return BadInput(Problem(f"{field}.file", rule, value))

    times: list[datetime] = []
    values: list[float] = []
    with reading.open_text(path, f"{field}.file", newline="", errors="replace") as file:
        reader = csv.DictReader(file)
        if not {"time_utc", "g_co2_per_kwh"} <= set(reader.fieldnames or ()):
            raise refuse("needs the columns time_utc, g_co2_per_kwh", ", ".join(reader.fieldnames or ()))
        for number, row in enumerate(reader, start=2):
            try:
                times.append(datetime.fromisoformat(row["time_utc"]).replace(tzinfo=None))
                values.append(float(row["g_co2_per_kwh"]))
            except (TypeError, ValueError):
                raise refuse(f"line {number} has no time and number", dict(row)) from None
            if len(times) > 1 and times[-1] <= times[-2]:
                raise refuse(f"line {number} is not later than the line before", row["time_utc"])
    if not times:
        raise refuse("has no rows")
    return times, values
