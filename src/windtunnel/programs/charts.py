"""Charts of a front: accuracy against dollars, joules and seconds; and of loads: who ends in time."""

from __future__ import annotations

import math
from dataclasses import dataclass

from windtunnel.charts.chart import Axis, Chart, Layer, layer
from windtunnel.charts.colours import INK, MUTED, SERIES
from windtunnel.charts.forms import dots, horizontal, line, number_ticks, vertical
from windtunnel.programs.front import figure
from windtunnel.programs.result import Point, ReasonResult


@dataclass(frozen=True, slots=True)
class Across:
    """A figure that accuracy is drawn against."""

    name: str
    title: str
    objective: str
    """Of `search`, whose limit is drawn."""

    def of(self, point: Point) -> float | None:
        """A candidate's figure."""
        return figure(point, self.objective)


ACROSS = (
    Across("dollars", "USD a problem, log scale", "cost_per_task"),
    Across("joules", "joules a problem, log scale", "joules_per_task"),
    Across("median latency", "median seconds of a problem, log scale", "latency_p50_s"),
    Across("99th percentile of latency", "seconds that 99 of 100 problems keep, log scale", "latency_p99_s"),
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
    limit = result.limits.get(across.objective)
    low, high = min(values) / 1.3, max([*values, *([limit] if limit else [])]) * 1.3
    if limit is not None and limit > low:
        bands += vertical(limit, "limit", colour=MUTED, left=True)
    if (least := result.limits.get("accuracy")) is not None:
        bands += horizontal(100.0 * least, "limit", colour=MUTED)
    if result.best in points and result.best is not None and result.best.accuracy is not None:
        best = {"x": _of(result.best, across), "y": 100.0 * result.best.accuracy.mean}
        marks.append(layer("point", [best], color=INK, filled=False, size=190, strokeWidth=1.5))
    ticks, words = _ticks(low, high)
    return Chart(
        title=f"Accuracy against {across.name}",
        layers=(*bands, *marks),
        x=Axis(title=across.title, kind="log", low=low, high=high, ticks=ticks, words=words),
        y=Axis(title="problems that end right, %", low=0.0, high=100.0),
        height=320,
        series=paint,
    )


def break_even_chart(result: ReasonResult) -> Chart | None:
    """USD a day of a provider and of own devices by generated tokens a day; None without a provider's price."""
    even = result.answers.get("break_even") or []
    if not even:
        return None
    several = len({e["model"] for e in even}) > 1
    names = [e["label"] + (f", {e['model'].rpartition('/')[2]}" if several else "") for e in even]
    paint = {name: SERIES[at % len(SERIES)] for at, name in enumerate(names)}
    marks: list[Layer] = []
    ends: list[tuple[float, float]] = []
    for e, name in zip(even, names, strict=True):
        tokens, usd = e["tokens_a_day"] / 1e6, e["usd_per_day"]
        most = tokens / e["share_of_capacity"]
        ends.append((most, usd / e["share_of_capacity"]))
        marks += line([0.0, most], [0.0, ends[-1][1]], series=name, strokeWidth=1.8)
        told = f"{e['label']}\nthe same cost at {tokens:,.0f} million tokens a day\nown devices do {most:,.0f} million"
        marks.append(dots([tokens], [usd], [told], series=name) if e["cheaper"] else layer("point", []))
        stop = [{"x": most, "y": ends[-1][1], "text": "all that own devices do"}]
        marks.append(layer("text", stop, color=MUTED, align="right", dx=-8, fontSize=11))
    for usd in sorted({e["usd_per_day"] for e in even}):
        marks += horizontal(usd, "own devices, busy or not", colour=INK)
    return Chart(
        title="Own devices or an API",
        layers=tuple(marks),
        x=Axis(title="millions of generated tokens a day", low=0.0, high=1.05 * max(x for x, _ in ends)),
        y=Axis(title="USD a day; sloped: the provider", low=0.0, high=1.08 * max(y for _, y in ends)),
        height=320,
        series=paint,
    )


def _ticks(low: float, high: float) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """Round numbers of a logarithmic axis, also where it spans less than ten."""
    if high / low > 12:
        return number_ticks(low, high, most=6)
    steps = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
    values = [m * 10.0**e for e in range(-9, 16) for m in steps if low <= m * 10.0**e <= high]
    while len(values) > 8:
        values = values[::2]
    return tuple(values), tuple(f"{v:,.10f}".rstrip("0").rstrip(".") for v in values)


def load_chart(result: ReasonResult) -> Chart | None:
    """Share of problems that keep the deadline by load, a line for each model and strategy; None without both."""
    points = [p for p in result.points if p.load is not None and p.deadline_met is not None]
    if len({p.load for p in points}) < 2:
        return None
    names = list(dict.fromkeys(_of_load(result, p) for p in points))
    paint = {name: SERIES[at % len(SERIES)] for at, name in enumerate(names)}
    marks: list[Layer] = []
    for name in names:
        own = sorted((p for p in points if _of_load(result, p) == name), key=lambda p: p.load or 0.0)
        x, y = [p.load or 0.0 for p in own], [100.0 * (p.deadline_met or 0.0) for p in own]
        marks += line(x, y, series=name, strokeWidth=1.6)
        marks.append(dots(x, y, [_load_told(p, result) for p in own], series=name))
        words = [f"{p.latency_s['p99']:,.0f} s" for p in own]
        rows = [{"x": a, "y": b, "text": text} for a, b, text in zip(x, y, words, strict=True)]
        marks.append(
            layer("text", rows if len(names) == 1 else [], color=MUTED, dy=-10, dx=4, align="left", fontSize=11)
        )
    kept = [m["share"] for m in result.answers.get("most_in_time", ())]
    marks += horizontal(100.0 * kept[0], f"{kept[0] * 100:g} %", colour=MUTED) if kept else []
    loads = sorted({p.load or 0.0 for p in points})
    return Chart(
        title=f"Problems that end within {result.deadline_s:g} s, by load",
        layers=tuple(marks),
        x=Axis(
            title=f"{result.load_unit}, log scale",
            kind="log",
            low=loads[0] / 1.15,
            high=loads[-1] * 1.3,
            ticks=tuple(loads),
            words=tuple(f"{x:g}" for x in loads),
        ),
        y=Axis(title=f"problems within {result.deadline_s:g} s, %", low=0.0, high=108.0),
        height=320,
        series=paint,
    )


def _of_load(result: ReasonResult, point: Point) -> str:
    """Model and strategy of a line, those that differ."""
    parts = [point.method] if len({p.method for p in result.points}) > 1 else []
    parts += [point.model.rpartition("/")[2]] if len({p.model for p in result.points}) > 1 else []
    return ", ".join(parts) or point.strategy


def _load_told(point: Point, result: ReasonResult) -> str:
    kept = f"in time {(point.deadline_met or 0) * 100:.1f} %"
    return (
        f"{point.method}\n{point.model}\n{point.load:g} {result.load_unit}\n{kept}\n"
        f"median {point.latency_s['p50']:.3g} s, p99 {point.latency_s['p99']:.3g} s"
    )


def _series(result: ReasonResult, point: Point) -> str:
    """Strategy with the knobs that candidates differ in, but for the number of attempts; plan and model likewise."""
    parts = [point.strategy] if len({p.strategy for p in result.points}) > 1 else []
    same = [p for p in result.points if p.strategy == point.strategy]
    for name, value in point.knobs.items():
        if name != "n" and any(p.knobs.get(name) != value for p in same):
            parts.append(f"{value}")
    plan = point.method.rpartition("), ")[2] if "), " in point.method else ""
    if plan and len({p.method.rpartition("), ")[2] for p in result.points}) > 1:
        parts.append(plan)
    if point.load is not None and len({p.n for p in result.points}) > 1:
        parts.append(f"{point.load:g} {result.load_unit.removeprefix('problems ')}")
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
