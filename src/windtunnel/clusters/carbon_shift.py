"""Jobs that wait for cleaner electricity: when each runs, as a forecast of the grid says.

Source: Wiesner et al. 2021, Let's wait awhile (Middleware '21), section 3: jobs with slack start where the mean
intensity over their time is least, or, where they can be interrupted, run in the cleanest slots.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.clusters.event_loop.records import PAUSE, RELEASE, Outages
from windtunnel.runs.intensity import Intensity
from windtunnel.specs.jobs import ShiftSpec

_SATURDAY = 5


@dataclass(frozen=True, slots=True)
class Windows:
    """When jobs may run: rows sorted by job, then start."""

    job: Ints
    start_s: Floats
    end_s: Floats

    def mean_intensity(self, hours: Intensity) -> float:
        """Grams a kilowatt-hour over all windows, each second with the same watts."""
        spans = self.end_s - self.start_s
        return float((hours.integral(self.end_s) - hours.integral(self.start_s)).sum() / spans.sum())


def plan_windows(
    spec: ShiftSpec, submit_s: Floats, work_s: Floats, latest_s: Floats, hours: Intensity, seed: int
) -> Windows:
    """Plan each job by itself, on a forecast with an error.

    Args:
        spec: slots, error, whether jobs can be interrupted.
        submit_s: when each job could start.
        work_s: how long each runs.
        latest_s: when each has to have ended; a job without slack runs at once.
        hours: of the grid.
        seed: of the forecast's error.
    """
    slot = spec.slot
    begin = np.floor(float(submit_s.min()) / slot) * slot
    count = int(np.ceil((float(np.maximum(latest_s, submit_s + work_s).max()) - begin) / slot)) + 1
    edges = begin + slot * np.arange(count + 1)
    truth = np.diff(hours.integral(edges)) / slot
    error = np.random.default_rng([seed, 13]).normal(0.0, spec.forecast_error * truth.mean(), count)
    told = Intensity(edges[:-1], truth + error)
    rows: list[tuple[int, float, float]] = []
    for j, (submit, work, latest) in enumerate(zip(submit_s, work_s, latest_s, strict=True)):
        slack = float(latest - submit - work)
        if slack < 1e-6:
            rows.append((j, float(submit), float(submit + work)))
        elif spec.interruptible:
            rows += [(j, *window) for window in _cleanest_slots(told, slot, float(submit), float(work), float(latest))]
        else:
            start = told.least_mean(float(submit), slack, float(work))[0]
            rows.append((j, start, start + float(work)))
    job, start_s, end_s = (np.array(column) for column in zip(*rows, strict=True))
    return Windows(job, start_s, end_s)


def _cleanest_slots(
    told: Intensity, slot: float, submit: float, work: float, latest: float
) -> list[tuple[float, float]]:
    """Stretches of slots that together hold a job's work at the least intensity, neighbours joined."""
    first = int(np.searchsorted(told.time_s, submit, side="right")) - 1
    last = int(np.searchsorted(told.time_s, latest - 1e-9, side="right"))
    starts = np.maximum(told.time_s[first:last], submit)
    ends = np.minimum(told.time_s[first:last] + slot, latest)
    order = np.argsort(told.g_per_kwh[first:last], kind="stable")
    passed = np.cumsum((ends - starts)[order])
    used = order[: int(np.searchsorted(passed, work - 1e-6)) + 1]
    beyond = float((ends - starts)[used].sum()) - work
    ends[used[-1]] -= max(beyond, 0.0)
    out: list[tuple[float, float]] = []
    for i in np.sort(used):
        if out and abs(out[-1][1] - starts[i]) < 1e-9:
            out[-1] = (out[-1][0], float(ends[i]))
        else:
            out.append((float(starts[i]), float(ends[i])))
    return out


def latest_ends(
    spec: ShiftSpec, start: datetime, submit_s: Floats, work_s: Floats, deadline_s: Floats | None
) -> Floats:
    """When each job has to have ended: its slack or its deadline allows, or the next morning on which somebody looks.

    A job that would end in working hours is looked at then and is not moved.
    """
    ends = submit_s + work_s
    if spec.until == "deadline":
        return ends if deadline_s is None else np.where(np.isfinite(deadline_s), np.maximum(deadline_s, ends), ends)
    if spec.until == "slack":
        return ends + spec.slack
    weekend = spec.until == "next_workday"
    return np.array([_next_morning(start, float(end), spec.work_hours, weekend) for end in ends])


def _next_morning(start: datetime, end_s: float, hours: tuple[float, float], weekend: bool) -> float:
    begins, stops = hours
    moment = start + timedelta(seconds=end_s)
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    clock_s = (moment - midnight).total_seconds()
    if moment.weekday() < _SATURDAY and begins * 3600 <= clock_s <= stops * 3600:
        return end_s
    day = midnight if clock_s < begins * 3600 else midnight + timedelta(days=1)
    while day.weekday() >= _SATURDAY and (weekend or moment.weekday() >= _SATURDAY):
        day += timedelta(days=1)
    return float((day + timedelta(hours=begins) - start).total_seconds())


def as_events(windows: Windows) -> Outages:
    """Jobs join the queue when a window begins and are put aside when it ends, the last one excepted."""
    last = np.append(windows.job[1:] != windows.job[:-1], True)
    time_s = np.concatenate([windows.start_s, windows.end_s[~last]])
    job = np.concatenate([windows.job, windows.job[~last]])
    kind = np.concatenate([np.full(len(last), RELEASE), np.full(int((~last).sum()), PAUSE)])
    order = np.argsort(time_s, kind="stable")
    return Outages(
        time_s[order], job[order], np.zeros(len(order), np.int64), kind[order], np.full(len(order), -1, np.int64)
    )


def merged(a: Outages, b: Outages) -> Outages:
    """Two lists of events in one, by time; at equal times those of `a` come first."""
    order = np.argsort(np.concatenate([a.time_s, b.time_s]), kind="stable")
    return Outages._make(np.concatenate([x, y])[order] for x, y in zip(a, b, strict=True))
