"""Charts of a front: accuracy against dollars, joules and seconds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from windtunnel.charts.chart import Axis, Chart, Layer, layer
from windtunnel.charts.colours import SERIES
from windtunnel.charts.forms import dots, line, number_ticks
from windtunnel.programs.result import Point, ReasonResult


@dataclass(frozen=True, slots=True)
class Across:
    """A figure that accuracy is drawn against."""

    name: str
    title: str
    of: Callable[[Point], float | None]


ACROSS = (
    Across("dollars", "USD a problem, log scale", lambda p: p.cost_usd),
    Across("joules", "joules a problem, log scale", lambda p: p.energy_j),
    Across("median latency", "median seconds of a problem, log scale", lambda p: p.latency_s["p50"]),
    Across(
        "99th percentile of latency", "seconds that 99 of 100 problems keep, log scale", lambda p: p.latency_s["p99"]
    ),
)


def drawable(result: ReasonResult, across: Across) -> list[Point]:
    """Candidates that have both figures."""
    return [p for p in result.points if p.accuracy is not None and _positive(across.of(p))]


def front_chart(result: ReasonResult, across: Across) -> Chart | None:
    """Every candidate's accuracy with its band; those of one model and strategy in one colour, in a line along n."""
    points = drawable(result, across)
    if not points:
        return None
    names = list(dict.fromkeys(_series(result, p) for p in points))
    paint = {name: SERIES[at % len(SERIES)] for at, name in enumerate(names)}
    bands: list[Layer] = []
    marks: list[Layer] = []
    for name in names:
        own = sorted((p for p in points if _series(result, p) == name), key=lambda p: (p.n or 0.0, _of(p, across)))
        x = [_of(p, across) for p in own]
        y = [100.0 * p.accuracy.mean for p in own if p.accuracy is not None]
        bands += [_band(p, across, paint[name]) for p in own]
        if len(own) > 1:
            marks += line(x, y, series=name, strokeWidth=1.2, opacity=0.7)
        marks.append(dots(x, y, [_told(p, across) for p in own], series=name))
        marks.append(_names(own, x, y, paint[name]))
    values = [_of(p, across) for p in points]
    low, high = min(values) / 1.3, max(values) * 1.3
    ticks, words = number_ticks(low, high, most=6)
    return Chart(
        title=f"Accuracy against {across.name}",
        layers=(*bands, *marks),
        x=Axis(title=across.title, kind="log", low=low, high=high, ticks=ticks, words=words),
        y=Axis(title="problems that end right, %", low=0.0, high=100.0),
        height=320,
        series=paint,
    )


def _series(result: ReasonResult, point: Point) -> str:
    """Strategy with the knobs that candidates differ in, but for the number of attempts; plan and model likewise."""
    parts = [point.strategy] if len({p.strategy for p in result.points}) > 1 else []
    same = [p for p in result.points if p.strategy == point.strategy]
    for name, value in point.knobs.items():
        if name != "n" and any(p.knobs.get(name) != value for p in same):
            parts.append(f"{value}")
    plan = point.label.rpartition("), ")[2] if "), " in point.label else ""
    if plan and len({p.label.rpartition("), ")[2] for p in result.points}) > 1:
        parts.append(plan)
    if len({p.model for p in result.points}) > 1:
        parts.append(point.model.rpartition("/")[2])
    return ", ".join(parts) or point.strategy


def _band(point: Point, across: Across, colour: str) -> Layer:
    own = point.accuracy
    assert own is not None
    row = {"x": _of(point, across), "y": 100.0 * own.low, "y2": 100.0 * own.high}
    return layer("rule", [row] if own.high > own.low else [], color=colour, strokeWidth=1.2, opacity=0.45)


def _names(points: list[Point], x: list[float], y: list[float], colour: str) -> Layer:
    """Numbers of attempts above their points, where they tell points apart."""
    several = len({p.n for p in points}) > 1
    rows = [
        {"x": a, "y": b, "text": f"n = {p.n:g}"}
        for p, a, b in zip(points, x, y, strict=True)
        if several and p.n is not None
    ]
    return layer("text", rows, color=colour, dy=-9, dx=-6, align="right", fontSize=11)


def _told(point: Point, across: Across) -> str:
    own = point.accuracy
    assert own is not None
    return (
        f"{point.label}\n{point.model}\naccuracy {own.mean * 100:.1f} % ({own.low * 100:.1f} to {own.high * 100:.1f})\n"
        f"{across.name} {_of(point, across):.3g}"
    )


def _of(point: Point, across: Across) -> float:
    value = across.of(point)
    assert value is not None
    return value


def _positive(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and value > 0
