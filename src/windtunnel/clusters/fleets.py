"""Serving fleets next to jobs: replicas that come and go by the hour, as jobs of the loop that never end by themselves.

A replica joins the queue with its fleet's priority when an hour needs it, starts with the seconds of its start-up,
and is withdrawn when an hour does not. What it takes from jobs of lower priority, and what a failed node takes from it,
is the loop's own doing.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Ints, Mask
from windtunnel.clusters.event_loop.records import FAILED, RELEASE, WITHDRAW, Causes, JobTable, Outages, Segments
from windtunnel.clusters.event_loop.run import Course
from windtunnel.clusters.power_course import RowSeries
from windtunnel.clusters.replica_figures import ReplicaFigures
from windtunnel.errors import BadInput, Problem
from windtunnel.files import reading
from windtunnel.specs.jobs import DiurnalLoad, ServingFleetSpec

HOUR_S = 3600.0
FOREVER_S = 1e9
"""Work of a replica: more than any run lasts."""
_MOST_HOURS = 24 * 366 * 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """A fleet with its replica's figures and its load."""

    name: str
    replica: ReplicaFigures
    load_per_s: Floats
    """By hour from the first submission, repeated when it ends."""
    least: int
    most: int
    priority: int
    start_up_s: float
    at_clock: tuple[ReplicaFigures, ...] = ()
    """The replica at each clock that feeds may lock, the full one first; empty: there are no feeds."""

    def watts_at_clock(self, hours: int) -> Floats:
        """Watts of a replica's device by hour and clock; shape (hours, CLOCKS). At each clock its share of the load.

        A slower replica that cannot answer its share draws what it draws at the most that it sustains.
        """
        each = self.loads(hours) / np.maximum(self.wanted(hours), 1)
        columns = [at.watts_at(np.minimum(each, at.rate_per_s)) for at in self.at_clock]
        known = [one for one in columns if one is not None]
        assert len(known) == len(columns), "feeds need a device with a design power, so that watts are known"
        return np.stack(known, axis=1)

    def loads(self, hours: int) -> Floats:
        """Requests a second in each of that many hours."""
        return np.resize(self.load_per_s, hours)

    def wanted(self, hours: int) -> Ints:
        """Replicas in each of that many hours: as many as sustain the load, between least and most."""
        need = np.ceil(self.loads(hours) / self.replica.rate_per_s - 1e-9).astype(np.int64)
        return np.clip(need, self.least, self.most)


def read_load(spec: ServingFleetSpec, folder: Path, start: datetime | None, field: str) -> Floats:
    """Requests a second by hour from the first submission.

    Args:
        spec: of the fleet.
        folder: what a file is relative to.
        start: moment of the first submission.
        field: where the load is written, for errors.

    Raises:
        BadInput: a file that cannot be read, or damaged lines of it.
    """
    if isinstance(spec.load, str):
        return _read_file(folder / spec.load, field)
    if isinstance(spec.load, DiurnalLoad):
        shape = spec.load
        first = 0.0 if start is None else start.hour + start.minute / 60 + start.second / 3600
        hour = first + 0.5 + np.arange(24)
        wave = 0.5 + 0.5 * np.cos(2 * np.pi * (hour - shape.peak_hour) / 24)
        found: Floats = shape.trough + (shape.peak - shape.trough) * wave
        return found
    return np.array(spec.load, np.float64)


def _read_file(file: Path, field: str) -> Floats:
    try:
        with reading.open_text(file, field, newline="") as lines:
            rows = list(csv.DictReader(lines))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else "is not a CSV file"
        raise BadInput(Problem(field, f"cannot be read: {said}", str(file))) from None
    if not rows or "requests_per_s" not in rows[0]:
        raise BadInput(Problem(field, "must have a column `requests_per_s` and a line for each hour", str(file)))
    if len(rows) > _MOST_HOURS:
        raise BadInput(Problem(field, f"must have at most {_MOST_HOURS:,} hours", len(rows)))
    values, problems = [], []
    for number, row in enumerate(rows, start=2):
        try:
            value = float(row["requests_per_s"] or "")
        except ValueError:
            value = math.nan
        if not 0 <= value <= 1e9:
            rule = "must be from 0 to 1e9 requests a second"
            problems.append(Problem("requests_per_s", rule, row["requests_per_s"], file=str(file), line=number))
        values.append(value)
    if problems:
        raise BadInput(problems[:20])
    return np.array(values)


def replicas_that_fit(capacity: Ints, devices: int) -> int:
    """Replicas that the empty room holds, each on as few nodes as can hold it."""
    largest = int(capacity.max())
    if devices <= largest:
        return int((capacity // devices).sum())
    whole = int((capacity == largest).sum())
    return whole // math.ceil(devices / largest)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRows:
    """Replicas as rows that follow those of the jobs."""

    fleet: Ints
    """Of each row."""
    table: JobTable
    """Jobs, and then replicas."""
    events: Outages
    """When replicas join and are withdrawn."""
    until_s: float
    """All replicas are withdrawn then."""
    fleets: tuple[Fleet, ...]
    begin_s: float
    hours: int
    """That are planned from `begin_s` on."""


def with_replicas(fleets: tuple[Fleet, ...], table: JobTable, begin_s: float, hours: int, step_s: float) -> ReplicaRows:
    """The queue with a row for each replica that some hour needs.

    Args:
        fleets: with their loads.
        table: of the jobs, with all columns.
        begin_s: when the first hour begins.
        hours: how many are planned.
        step_s: what one step of priority is worth in the queue's key.
    """
    n = len(table.submit_s)
    rows: list[tuple[float, int, int]] = []
    fleet_of: list[int] = []
    for f, fleet in enumerate(fleets):
        wanted = np.concatenate([[0], fleet.wanted(hours), [0]])
        for k in range(int(wanted.max())):
            change = np.diff((wanted > k).astype(np.int64))
            row = n + len(fleet_of)
            rows += [(begin_s + HOUR_S * h, row, RELEASE) for h in np.flatnonzero(change > 0).tolist()]
            rows += [(begin_s + HOUR_S * h, row, WITHDRAW) for h in np.flatnonzero(change < 0).tolist()]
            fleet_of.append(f)
    rows.sort(key=lambda row: (row[0], row[2] != WITHDRAW, row[1]))
    count, own = len(fleet_of), [fleets[f] for f in fleet_of]
    last = float(table.submit_s[-1])
    added = JobTable(
        submit_s=np.full(count, last),
        devices=np.array([one.replica.devices for one in own], np.int64),
        work_s=np.full(count, FOREVER_S),
        estimate_s=np.full(count, FOREVER_S),
        key=np.array([-(one.priority + 0.5) * step_s for one in own]),  # before jobs of the same priority
        overhead_s=np.array([one.start_up_s for one in own]),
        spread_speed=np.ones(count),
        save_s=np.full(count, 10 * FOREVER_S),  # what a failure undoes is all that it did: when it failed is then known
        held=np.ones(count, np.int64),
    )
    both = JobTable._make(np.concatenate([a, b]) for a, b in zip(table, added, strict=True))
    whole = np.array([row[1:] for row in rows], np.int64).reshape(len(rows), 2)
    time_s: Floats = np.array([row[0] for row in rows], np.float64)
    none = np.full(len(rows), -1, np.int64)
    events = Outages(time_s, whole[:, 0].copy(), np.zeros(len(rows), np.int64), whole[:, 1].copy(), none)
    return ReplicaRows(
        fleet=np.array(fleet_of, np.int64),
        table=both,
        events=events,
        until_s=begin_s + HOUR_S * hours,
        fleets=fleets,
        begin_s=begin_s,
        hours=hours,
    )


def without_replicas(course: Course, jobs: int) -> Course:
    """The course of the jobs alone."""
    s = course.segments
    return replace(
        course,
        first_start_s=course.first_start_s[:jobs],
        end_s=course.end_s[:jobs],
        run_s=course.run_s[:jobs],
        starts=course.starts[:jobs],
        kills=course.kills[:jobs],
        segments=Segments._make(column[s.job < jobs] for column in s),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Locks:
    """Clocks of rows over time, as fleets feel them. A replica is taken to stand in the row of its first node."""

    rows: tuple[RowSeries, ...]
    row_of: Ints
    """Of each node."""
    high_priority: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetCourse:
    """What became of a fleet from the first submission to the last end of a job."""

    fleet: Fleet
    hour_s: Floats
    """Begin of each hour, seconds after the first submission; the last one may be cut."""
    load_per_s: Floats
    wanted: Ints
    replicas: Floats
    """Mean number that answer in each hour."""
    unmet: Floats
    """Requests of each hour beyond what those that answer sustain."""
    start_s: Floats
    end_s: Floats
    """Stretches in which a replica holds devices."""
    row: Ints
    """Replica of each stretch: its row in the loop."""
    serve_from_s: Floats
    serve_until_s: Floats
    """Between which it answers."""
    failed: int
    """Stretches that failures ended."""
    device_hours: float
    energy_kwh: float | None
    """Of its devices, without the room's PUE."""
    cost: float | None
    watts: Floats
    """Of a device of a replica in each hour; NaN: not known."""

    @property
    def requests(self) -> float:
        """All that came."""
        return float((self.load_per_s * self.lengths).sum())

    @property
    def lengths(self) -> Floats:
        """Seconds of each hour."""
        return np.diff(self.hour_s, append=self.span_s)

    span_s: float
    """Until the last end of a job."""

    def by_hour(self) -> tuple[Floats, Floats, Floats, Ints]:
        """Stretches cut at hours: start, end, devices, hour of each."""
        start, end, hour = _cut_at_hours(self.start_s, self.end_s)
        return start, end, np.full(len(start), float(self.fleet.replica.devices)), hour

    def to_dict(self) -> dict[str, Any]:
        """For `--json`."""
        own, total = self.fleet.replica, self.requests
        return {
            "name": self.fleet.name,
            "devices_per_replica": own.devices,
            "rate_per_replica": {"value": own.rate_per_s, "low": own.low_per_s, "high": own.high_per_s},
            "start_up_s": self.fleet.start_up_s,
            "requests": total,
            "unmet_requests": float(self.unmet.sum()),
            "unmet_share": float(self.unmet.sum()) / total if total > 0 else 0.0,
            "device_hours": self.device_hours,
            "energy_kwh": self.energy_kwh,
            "cost": self.cost,
            "stopped_by_failures": self.failed,
            "hours": [
                {"load_per_s": load, "wanted": wanted, "replicas": replicas, "unmet_requests": unmet}
                for load, wanted, replicas, unmet in zip(
                    self.load_per_s.tolist(),
                    self.wanted.tolist(),
                    self.replicas.tolist(),
                    self.unmet.tolist(),
                    strict=True,
                )
            ],
        }


def fleet_courses(
    fleets: tuple[Fleet, ...],
    rows: ReplicaRows,
    course: Course,
    causes: Causes,
    span: tuple[float, float],
    busy_w: float | None,
    price_per_device_hour: float | None,
    locks: Locks | None = None,
) -> tuple[FleetCourse, ...]:
    """What became of each fleet.

    Args:
        fleets: as they were planned.
        rows: which replica each row is.
        course: of jobs and replicas.
        causes: of failures.
        span: first submission, last end of a job.
        busy_w: of a device where the replica's own watts are not known.
        price_per_device_hour: of a device.
        locks: clocks of rows; None: there are no feeds.
    """
    jobs = len(rows.table.submit_s) - len(rows.fleet)
    s = course.segments
    out = []
    for f, fleet in enumerate(fleets):
        here = (s.job >= jobs) & (s.start_s < span[1])
        here[here] = rows.fleet[s.job[here] - jobs] == f
        own = Segments._make(column[here] for column in s)
        out.append(_one_course(fleet, own, causes, span, busy_w, price_per_device_hour, locks))
    return tuple(out)


def _one_course(
    fleet: Fleet,
    s: Segments,
    causes: Causes,
    span: tuple[float, float],
    busy_w: float | None,
    price: float | None,
    locks: Locks | None,
) -> FleetCourse:
    begin, end = span
    length = end - begin
    hours = max(math.ceil(length / HOUR_S), 1)
    edges = np.append(HOUR_S * np.arange(hours), length)
    loads, wanted = fleet.loads(hours), fleet.wanted(hours)
    start, stop = s.start_s - begin, np.minimum(s.end_s - begin, length)
    ready = np.minimum(start + fleet.start_up_s, stop)
    hung = (s.why == FAILED) & ((s.lost_s > 0) | (not causes.drains.any() and not (causes.slow > 1).any()))
    until = np.where(hung, np.minimum(ready + s.lost_s, stop), stop)
    moments = np.unique(np.concatenate([edges, start, ready, until, stop, *_turns(locks, begin)]))
    moments = moments[(moments >= 0) & (moments <= edges[-1])]
    clocked = _clocked(fleet, s.node, locks, begin + (moments[1:] + moments[:-1]) / 2)
    unmet, answering = _unmet(clocked, loads, edges, moments, (ready, until))
    watts = fleet.replica.watts_at(loads / np.maximum(wanted, 1))
    if watts is None:
        watts = np.full(hours, np.nan if busy_w is None else busy_w)
    cut_start, cut_end, hour = _cut_at_hours(start, stop)
    held = _sums(hour, cut_end - cut_start, hours) * fleet.replica.devices
    joules = float((held * watts)[held > 0].sum())
    if locks is not None:
        joules = _joules(fleet, clocked, fleet.watts_at_clock(hours), moments, (start, stop))
    return FleetCourse(
        fleet=fleet,
        hour_s=edges[:-1],
        load_per_s=loads,
        wanted=wanted,
        replicas=answering,
        unmet=unmet,
        start_s=start,
        end_s=stop,
        row=s.job,
        serve_from_s=ready,
        serve_until_s=until,
        failed=int((s.why == FAILED).sum()),
        device_hours=float(held.sum()) / HOUR_S,
        energy_kwh=None if math.isnan(joules) else joules / 3.6e6,
        cost=None if price is None else price * float(held.sum()) / HOUR_S,
        watts=watts,
        span_s=length,
    )


def _cut_at_hours(start_s: Floats, end_s: Floats) -> tuple[Floats, Floats, Ints]:
    """Stretches cut where hours begin: start, end, hour of each piece."""
    first = np.floor(start_s / HOUR_S).astype(np.int64)
    last = np.maximum(np.ceil(end_s / HOUR_S).astype(np.int64), first + 1)
    which = np.repeat(np.arange(len(first)), last - first)
    before = np.cumsum(last - first) - (last - first)
    hour = (np.arange(len(which)) - before[which] + first[which]).astype(np.int64)
    start: Floats = np.maximum(start_s[which], hour * HOUR_S)
    end: Floats = np.minimum(end_s[which], (hour + 1) * HOUR_S)
    kept = end > start
    return start[kept], end[kept], hour[kept]


def _sums(hour: Ints, values: Floats, hours: int) -> Floats:
    """Sum of the values of each hour."""
    out = np.zeros(hours)
    np.add.at(out, hour, values)
    return out


def _turns(locks: Locks | None, begin: float) -> list[Floats]:
    """Moments at which clocks change, seconds after the first submission."""
    return [] if locks is None else [one.time_s - begin for one in locks.rows]


_Clocked = list[tuple[Mask, Ints, Floats]]
"""For each row of nodes: which stretches stand there, its clock in each piece of time, the rate at each clock."""


def _clocked(fleet: Fleet, node: Ints, locks: Locks | None, middle: Floats) -> _Clocked:
    """Clocks of a fleet's stretches in the middle of pieces of time; one row at the full clock where none is locked."""
    if locks is None:
        return [(np.ones(len(node), np.bool_), np.zeros(len(middle), np.int64), np.array([fleet.replica.rate_per_s]))]
    rates = np.array([at.rate_per_s for at in fleet.at_clock])
    rates = np.minimum(rates, fleet.replica.rate_per_s)
    rows = locks.row_of[node]
    high = fleet.priority >= locks.high_priority
    return [(rows == row, locks.rows[row].clocks(middle, high), rates) for row in np.unique(rows).tolist()]


def _count(begins: Floats, ends: Floats, middle: Floats) -> Floats:
    """Stretches that hold at some moments."""
    found = np.searchsorted(np.sort(begins), middle) - np.searchsorted(np.sort(ends), middle)
    return found.astype(np.float64)


def _joules(fleet: Fleet, clocked: _Clocked, watts: Floats, moments: Floats, holds: tuple[Floats, Floats]) -> float:
    """Energy of a fleet's devices at the clocks that they had."""
    width, middle = np.diff(moments), (moments[1:] + moments[:-1]) / 2
    hour = np.minimum((middle // HOUR_S).astype(np.int64), len(watts) - 1)
    parts = [
        (_count(holds[0][here], holds[1][here], middle) * width) @ watts[hour, clock] for here, clock, _ in clocked
    ]
    return float(sum(parts)) * fleet.replica.devices


def _unmet(
    clocked: _Clocked, loads: Floats, edges: Floats, moments: Floats, answers: tuple[Floats, Floats]
) -> tuple[Floats, Floats]:
    """Requests of each hour beyond what the answering replicas sustain, and the mean number that answer."""
    width, middle = np.diff(moments), (moments[1:] + moments[:-1]) / 2
    hour = np.minimum(np.searchsorted(edges, middle, side="right") - 1, len(loads) - 1)
    count, sustained = np.zeros(len(middle)), np.zeros(len(middle))
    for here, clock, rates in clocked:
        own = _count(answers[0][here], answers[1][here], middle)
        count += own
        sustained += own * rates[clock]
    beyond = _sums(hour, np.maximum(loads[hour] - sustained, 0.0) * width, len(loads))
    there = _sums(hour, count * width, len(loads))
    return beyond, there / np.maximum(np.diff(edges), 1e-9)
