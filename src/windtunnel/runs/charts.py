"""Charts of a run: progress with its stops, where the time goes, and the distribution of days."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from windtunnel.charts.chart import Axis, Chart, Panels, Row, layer
from windtunnel.charts.colours import INK
from windtunnel.charts.forms import Bar, Bars, vertical

COLOURS = {
    "work": "#2e7d32",
    "lost_progress": "#c0392b",
    "save": "#8e6bbf",
    "degraded": "#b7950b",
    "straggler": "#d68910",
    "detect": "#5d6d7e",
    "diagnose": "#7f8c9a",
    "wait_for_nodes": "#a04000",
    "schedule": "#2471a3",
    "initialise": "#5499c7",
    "load": "#76448a",
    "compile": "#117a65",
    "refill": "#45b39d",
    "maintenance": "#95a5a6",
}
DAY_S = 86400.0


def run_figure(result: Any) -> Panels:
    """All charts of a run."""
    charts = (waterfall(result), progress(result), distribution(result))
    return Panels(tuple(replace(chart, heading=True) for chart in charts))


def waterfall(result: Any) -> Chart:
    """From the ideal run to the real one: what classes of time add to it, one after another, in days."""
    mean = result.days["mean"]
    bars, start = [], 0.0
    for name, seconds in result.seconds.items():
        days = seconds / DAY_S
        if name == "work" or days < 1e-4 * mean:
            continue
        share = 100 * days / mean
        text = f"{days:.2f} d · {share:.1f} %" if share >= 0.1 else f"{days:.3f} d"
        label = name.replace("wait_for_nodes", "node_wait").replace("_", " ")
        bars.append(Bar(name=label, start=start, end=start + days, colour=COLOURS[name], text=text))
        start += days
    whole = Bar(name="all", end=start, colour="#37474f", text=f"{start:.2f} d · {100 * start / mean:.1f} %")
    return Bars(
        title=f"What adds to {result.seconds['work'] / DAY_S:.1f} ideal days, to {mean:.1f} days (mean)",
        bars=(*bars, whole),
        layers=(),
        x=Axis(title="days over the ideal ones, shares of the run"),
        y=Axis(kind="band"),
    )


def progress(result: Any) -> Chart:
    """Steps done over days in the first replication; every stop goes back to its copy."""
    rows: list[Row] = [{"x": 0.0, "y": 0.0}]
    work_s = result.ideal_days * DAY_S
    for stop in result.stops:
        back = stop["progress"] - stop["lost_s"] / work_s
        rows += [
            {"x": stop["day"], "y": 100 * stop["progress"]},
            {"x": stop["day"], "y": 100 * back},
            {"x": stop["day"] + stop["down_s"] / DAY_S, "y": 100 * back},
        ]
    if len(result.stops) < 4096:
        rows.append({"x": result.every_days[0], "y": 100.0})
    ideal: list[Row] = [{"x": 0.0, "y": 0.0}, {"x": result.ideal_days, "y": 100.0}]
    return Chart(
        title="Progress of one run, and without failures (dashed)",
        layers=(layer("line", ideal, stroke=INK, strokeDash=[5, 4]), layer("line", rows, stroke=COLOURS["work"])),
        x=Axis(title="days"),
        y=Axis(title="steps done, %", low=0.0, high=100.0),
        height=300,
    )


def distribution(result: Any) -> Chart:
    """How often the run takes how many days."""
    bins = result.days_histogram
    counts, edges = bins["counts"], bins["edges_days"]
    rows: list[Row] = [
        {"x": float(a), "x2": float(b), "y": float(n), "y2": 0.0, "told": f"{a:.2f} to {b:.2f} days: {n} runs"}
        for a, b, n in zip(edges[:-1], edges[1:], counts, strict=True)
    ]
    layers = [layer("rect", rows, fill=COLOURS["schedule"], opacity=0.8)]
    middle = 0.5 * (edges[0] + edges[-1])
    for name, y in (("p10", 6.0), ("p50", 20.0), ("p90", 34.0)):
        at = result.days[name]
        layers += vertical(at, f"{name.upper()} {at:.1f} d", left=at > middle, y=y)
    return Chart(
        title=f"Days of {result.replications} runs",
        layers=tuple(layers),
        x=Axis(title="days", from_zero=False),
        y=Axis(title="runs", low=0.0, high=1.3 * max(counts)),
        height=260,
    )
