"""Charts of jobs on a cluster: who runs when, how full it is, how long jobs take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.charts.chart import Axis, Chart, Layer, Panels, Row, layer
from windtunnel.charts.colours import BLUE, GREEN, ORANGE, RED, SERIES
from windtunnel.charts.forms import area, horizontal, line
from windtunnel.clusters.event_loop.records import FAILED
from windtunnel.quantities import seconds

if TYPE_CHECKING:
    from windtunnel.clusters.result import ClusterResult, PodResult

_MOST_ROWS, _MOST_BARS, _POINTS = 60, 1500, 600
_NAMED_ROWS, _LETTERS = 13, 12
"""Rows up to which each has room for its job's name, of which this many letters are shown; above, every second has."""
_FLEET_ROWS = 24
"""Rows of replicas above the jobs."""
FLEETS = SERIES[5:]
_DAY_S, _HOUR_S = 86400.0, 3600.0


def _unit(result: ClusterResult) -> tuple[float, str]:
    return (_DAY_S, "days") if result.makespan_s > 3 * _DAY_S else (_HOUR_S, "hours")


def gantt(result: ClusterResult) -> Chart:
    """Stretches of running of the jobs that use most device time; a thin line where a job waits."""
    jobs, s = result.table, result.segments
    unit, word = _unit(result)
    begin = float(jobs.submit_s[0])
    shown = np.sort(np.argsort(-(jobs.work_s * jobs.devices), kind="stable")[:_MOST_ROWS])
    place = {int(job): i for i, job in enumerate(shown)}
    sizes = sorted({int(size) for size in jobs.devices[shown]})
    colour = {size: SERIES[i % len(SERIES)] for i, size in enumerate(sizes)}
    waits: list[Row] = []
    for job, row in place.items():
        x, x2 = (jobs.submit_s[job] - begin) / unit, (result.end_s[job] - begin) / unit
        waits.append({"x": float(x), "x2": float(x2), "y": row + 0.5})
    bars: list[Row] = []
    rows = np.flatnonzero(np.isin(s.job, shown))
    longest = rows[np.argsort(-(s.end_s - s.start_s)[rows], kind="stable")[:_MOST_BARS]]
    for i in np.sort(longest):
        job = int(s.job[i])
        size, row = int(jobs.devices[job]), place[job]
        told = f"job {jobs.names[job]}: {size} devices for {seconds(float(s.end_s[i] - s.start_s[i]))}"
        x, x2 = float(s.start_s[i] - begin) / unit, float(s.end_s[i] - begin) / unit
        bars.append({"x": x, "x2": x2, "y": row + 0.15, "y2": row + 0.85, "series": f"{size} devices", "told": told})
    failed: list[Row] = []
    count, served = _replica_bars(result, len(shown), unit)
    high = float(len(shown) + count)
    named = range(0, len(shown), 1 if high <= _NAMED_ROWS else 2)
    for i in rows[s.why[rows] == FAILED][:_MOST_BARS]:
        x, row = float(s.end_s[i] - begin) / unit, place[int(s.job[i])]
        told = f"job {jobs.names[int(s.job[i])]} failed: {seconds(float(s.lost_s[i]))} of work lost"
        width = result.makespan_s / unit / 300
        failed.append({"x": x - width, "x2": x, "y": row, "y2": row + 1.0, "series": "failed", "told": told})
    return Chart(
        title=f"When the {len(shown)} largest jobs run (by device time; earliest submission at the bottom)",
        layers=(layer("rule", waits, strokeWidth=0.6, color="#90a4ae"), layer("rect", [*bars, *served, *failed])),
        x=Axis(title=f"{word} from the first submission", low=0.0),
        y=Axis(
            title="jobs",
            low=0.0,
            high=high,
            grid=False,
            ticks=tuple(row + 0.5 for row in named),
            words=tuple(str(jobs.names[shown[row]])[:_LETTERS] for row in named),
        ),
        height=max(160, 7 * int(high)),
        series={f"{size} devices": colour[size] for size in sizes}
        | _fleet_colours(result)
        | ({"failed": RED} if failed else {}),
    )


def _course(
    result: ClusterResult,
    title: str,
    layers: Sequence[Layer],
    y: Axis,
    height: int,
    series: dict[str, str] | None = None,
) -> Chart:
    """One of several charts over the time of the cluster."""
    x = Axis(title=f"{_unit(result)[1]} from the first submission", low=0.0)
    return Chart(title=title, heading=True, layers=tuple(layers), x=x, y=y, height=height, series=series or {})


def _fleet_colours(result: ClusterResult) -> dict[str, str]:
    return {one.fleet.name: FLEETS[i % len(FLEETS)] for i, one in enumerate(result.serving)}


def _replica_bars(result: ClusterResult, first: int, unit: float) -> tuple[int, list[Row]]:
    """Rows above the jobs for replicas of fleets, each where it holds devices: (number of rows, bars)."""
    rows: list[Row] = []
    at = first
    for one in result.serving:
        known = np.unique(one.row)[: _FLEET_ROWS // len(result.serving)]
        for row in known:
            for i in np.flatnonzero(one.row == row)[:_MOST_BARS]:
                x, x2 = float(one.start_s[i] / unit), float(one.end_s[i] / unit)
                told = f"{one.fleet.name}: a replica for {seconds(float(one.end_s[i] - one.start_s[i]))}"
                rows.append({"x": x, "x2": x2, "y": at + 0.15, "y2": at + 0.85, "series": one.fleet.name, "told": told})
            at += 1
    return at - first, rows


def load(result: ClusterResult) -> Panels:
    """Busy devices and waiting jobs over time, means of slices."""
    unit, _ = _unit(result)
    own = result.load
    edges = np.linspace(own.time_s[0], own.time_s[-1], _POINTS + 1)
    middle = ((edges[:-1] + edges[1:]) / 2 - own.time_s[0]) / unit

    def sliced(values: Floats) -> list[float]:
        total = np.concatenate([[0.0], np.cumsum(values[:-1] * np.diff(own.time_s))])
        return [float(v) for v in np.diff(np.interp(edges, own.time_s, total)) / np.diff(edges)]

    x = [float(v) for v in middle]
    busy, waiting = sliced(own.busy), sliced(own.waiting.astype(np.float64))
    devices = float(result.room.devices)
    base, stacked = [0.0] * len(x), list[Layer]()
    for fleet, colour in zip(own.fleets, _fleet_colours(result).values(), strict=False):
        top = [a + b for a, b in zip(base, sliced(fleet), strict=True)]
        stacked.append(area(x, top, base=base, colour=colour, opacity=0.6))
        base = top
    above = [a + b for a, b in zip(base, busy, strict=True)]
    stacked.append(area(x, above, base=base, colour=BLUE, opacity=0.5))
    names = "".join(f", {one.fleet.name} below them" for one in result.serving[:1]) if len(own.fleets) == 1 else ""
    names = ", fleets below them" if len(own.fleets) > 1 else names
    stacked += horizontal(devices, f"all {devices:,.0f} devices")
    queue = [area(x, waiting, colour=ORANGE, opacity=0.6)]
    charts = [
        _course(
            result, f"Devices with a job{names}", stacked, Axis(title="devices", low=0.0, high=devices * 1.12), 180
        ),
        _course(result, "Jobs that wait", queue, Axis(title="jobs", low=0.0), 140),
    ]
    if result.power_w is not None and result.room.idle_w is not None:
        watts = (result.room.idle_w * result.room.devices + own.watts) * result.pue
        kw = [value / 1e3 for value in sliced(watts)]
        power = [area(x, kw, colour=GREEN, opacity=0.5)]
        charts.append(_course(result, "Power of the cluster", power, Axis(title="kW", low=0.0), 140))
    return Panels(tuple(charts))


def replicas(result: ClusterResult) -> Panels:
    """Of each fleet: replicas that answer, those that the load asks for, and requests beyond what they sustain."""
    unit, _ = _unit(result)
    charts = []
    for one in result.serving:
        edges = np.append(one.hour_s, one.span_s) / unit
        x = [float(v) for v in np.repeat(edges, 2)[1:-1]]

        def steps(values: Floats) -> list[float]:
            return [float(v) for v in np.repeat(values, 2)]

        rate = one.fleet.replica.rate_per_s
        beyond = one.unmet / np.maximum(one.lengths, 1e-9)
        series = {"load": ORANGE, "what its replicas sustain": GREEN} | ({"unmet": RED} if beyond.any() else {})
        layers = [
            *line(x, steps(one.load_per_s), series="load"),
            *line(x, steps(one.replicas * rate), series="what its replicas sustain"),
            *(line(x, steps(beyond), series="unmet") if beyond.any() else ()),
        ]
        title = f"{one.fleet.name}: requests a second, hour by hour"
        charts.append(_course(result, title, layers, Axis(title="requests/s", low=0.0), 180, series))
    return Panels(tuple(charts))


def completion(result: ClusterResult) -> Chart:
    """Share of jobs that end within a time, and that run alone in it."""
    shares = np.linspace(0.0, 1.0, 200)
    jct = np.maximum(result.end_s - result.table.submit_s, 1e-3)
    work = np.maximum(result.table.work_s, 1e-3)
    y = [float(100 * s) for s in shares]
    layers = [
        *line([float(v) / 3600 for v in np.quantile(jct, shares)], y, series="in the cluster"),
        *line([float(v) / 3600 for v in np.quantile(work, shares)], y, series="alone"),
    ]
    return Chart(
        title="Share of jobs that have ended after a time",
        layers=tuple(layers),
        x=Axis(title="hours from submission", kind="log"),
        y=Axis(title="share of jobs, %", low=0.0, high=100.0),
        series={"in the cluster": BLUE, "alone": GREEN},
    )


def allocated(result: PodResult) -> Chart:
    """GPUs that are allocated when so much has been asked for."""
    x = [100 * point["arrived_load"] for point in result.allocated_share]
    y = [100 * point["share"] for point in result.allocated_share]
    return Chart(
        title="Allocated GPUs by what pods have asked for",
        layers=(*line(x, x, colour="#90a4ae", strokeDash=[4, 4]), *line(x, y)),
        x=Axis(title="GPUs asked for, % of all", low=0.0),
        y=Axis(title="GPUs allocated, %", low=0.0, high=max(100.0, *x)),
    )
