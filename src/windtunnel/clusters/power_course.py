"""What became of rows of nodes under their feeds: watts, locks and brakes over time, and what they took from jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Ints, Mask
from windtunnel.clusters.event_loop.power_records import BRAKE, FULL, PowerLog
from windtunnel.clusters.metrics import weighted_quantile


@dataclass(frozen=True, slots=True)
class RowSeries:
    """One row from the first submission on; entry i holds until the next."""

    time_s: Floats
    mean_w: Floats
    """Mean of the steps of its jobs."""
    reading_w: Floats
    """While all its jobs compute: what a meter shows, and what the manager acts on."""
    low: Ints
    """Clock of low priority: FULL … of `power_records`."""
    high: Ints

    def at(self, moments: Floats) -> Ints:
        """Entries that hold at some moments."""
        found: Ints = np.maximum(np.searchsorted(self.time_s, moments, side="right") - 1, 0)
        return found

    def clocks(self, moments: Floats, high: bool) -> Ints:
        """Clock of a class at some moments."""
        found: Ints = (self.high if high else self.low)[self.at(moments)]
        return found


def series_of(log: PowerLog, rows: int) -> tuple[RowSeries, ...]:
    """The log by row."""
    parts = []
    for row in range(rows):
        own = PowerLog._make(column[log.row == row] for column in log)
        parts.append(RowSeries(own.time_s, own.mean_w, own.peak_w, own.low, own.high))
    return tuple(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFigures:
    """One row over the run."""

    limit_w: float
    mean_w: float
    p99_w: float
    """Reading that is not exceeded for 99 % of the time."""
    peak_w: float
    seconds_capped: float
    """With a clock locked or the brake on."""
    seconds_braked: float
    brakes: int

    def to_dict(self) -> dict[str, float]:
        """For `--json`."""
        names = ("limit_w", "mean_w", "p99_w", "peak_w", "seconds_capped", "seconds_braked", "brakes")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassSlowdown:
    """What locked clocks took from the jobs of one class."""

    jobs: int
    slowdown: float
    """Device time that they ran over that without locks; 1: nothing was taken."""
    lost_device_h: float

    def to_dict(self) -> dict[str, float]:
        """For `--json`."""
        return {"jobs": self.jobs, "slowdown": self.slowdown, "lost_device_h": self.lost_device_h}


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerCourse:
    """All rows over the run."""

    rows: tuple[RowFigures, ...]
    time_s: Floats
    mean_w: Floats
    """Of all rows."""
    reading_w: Floats
    seconds_capped: float
    """In which any row has a clock locked."""
    low: ClassSlowdown
    high: ClassSlowdown

    @property
    def brakes(self) -> int:
        """Of all rows."""
        return sum(row.brakes for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "seconds_capped": self.seconds_capped,
            "brakes": self.brakes,
            "low_priority": self.low.to_dict(),
            "high_priority": self.high.to_dict(),
            "rows": [row.to_dict() for row in self.rows],
        }


def power_course(
    series: tuple[RowSeries, ...],
    limit_w: Floats,
    brakes: Ints,
    span: tuple[float, float],
    jobs: tuple[Mask, Floats, Floats, Floats],
) -> PowerCourse:
    """Figures of rows and classes.

    Args:
        series: of each row.
        limit_w: of each row's feed.
        brakes: of each row.
        span: first submission, last end of a job.
        jobs: of each job: whether it is of high priority, its devices, seconds that it ran, seconds that locks took.
    """
    moments = np.concatenate([[span[0]], *(one.time_s for one in series)])
    times = np.unique(moments[(moments >= span[0]) & (moments < span[1])])
    lengths = np.diff(times, append=span[1])
    at = [one.at(times) for one in series]
    locked = [np.maximum(one.low[k], one.high[k]) for one, k in zip(series, at, strict=True)]
    rows = tuple(
        RowFigures(
            limit_w=float(limit),
            mean_w=float(one.mean_w[k] @ lengths / lengths.sum()),
            p99_w=weighted_quantile(one.reading_w[k], lengths, 0.99),
            peak_w=float(one.reading_w[k].max()),
            seconds_capped=float(lengths[lock > FULL].sum()),
            seconds_braked=float(lengths[lock == BRAKE].sum()),
            brakes=int(count),
        )
        for one, k, lock, limit, count in zip(series, at, locked, limit_w, brakes, strict=True)
    )
    high, devices, run_s, taken_s = jobs
    return PowerCourse(
        rows=rows,
        time_s=times,
        mean_w=np.sum([one.mean_w[k] for one, k in zip(series, at, strict=True)], axis=0),
        reading_w=np.sum([one.reading_w[k] for one, k in zip(series, at, strict=True)], axis=0),
        seconds_capped=float(lengths[np.max(locked, axis=0) > FULL].sum()),
        low=_slowdown(~high, devices, run_s, taken_s),
        high=_slowdown(high, devices, run_s, taken_s),
    )


def _slowdown(mine: Mask, devices: Floats, run_s: Floats, taken_s: Floats) -> ClassSlowdown:
    ran, taken = float((devices * run_s)[mine].sum()), float((devices * taken_s)[mine].sum())
    return ClassSlowdown(
        jobs=int(mine.sum()), slowdown=ran / (ran - taken) if ran > taken else 1.0, lost_device_h=taken / 3600.0
    )
