"""Charts of a run's choices: days against money, and what each choice does around the best one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from windtunnel.charts.chart import Axis, Chart, Layer, Panels, layer
from windtunnel.charts.colours import BLUE, INK, RED
from windtunnel.charts.forms import dots
from windtunnel.runs.run_choice import RunChoice

_FRONT = "#2e7d32"


def search_figure(result: Any) -> Panels:
    """All charts of a search."""
    charts = [curve(result, name) for name in ("intervals", "spares") if len(result.curves[name]) > 1]
    if result.best.run_cost is not None:
        charts.insert(0, days_against_money(result))
    return Panels(tuple(replace(chart, heading=True) for chart in charts))


def told(one: RunChoice) -> str:
    """A choice in words, for its point."""
    money = "" if one.run_cost is None else f", ${one.run_cost:,.0f}"
    return f"{one.tiers}, every {one.interval_s:,.0f} s, {one.spares} spares: {one.days:.2f} days{money}"


def days_against_money(result: Any) -> Chart:
    """Choices near the best one, and those that none beats in both."""
    near = {(c.tiers, c.interval_s, c.spares): c for curve in result.curves.values() for c in curve}
    most = 1.5 * result.best.days
    rest = [c for c in near.values() if c.days <= most]
    front = [c for c in result.front if c.run_cost is not None]
    layers: list[Layer] = [_points(rest, BLUE, 40)]
    steps = [{"x": c.days, "y": c.run_cost or 0.0} for c in front]
    layers += [layer("line", steps, stroke=_FRONT, strokeDash=[4, 3]), _points(front, _FRONT, 90)]
    layers.append(_points([result.best], RED, 140))
    if result.written is not None and result.written.days <= most:
        layers.append(_points([result.written], INK, 90))
    return Chart(
        title="Days against dollars: the best (red), what none beats in both (green), the scenario's own (black)",
        layers=tuple(layers),
        x=Axis(title="days (mean)", from_zero=False),
        y=Axis(title="dollars", from_zero=False),
        height=280,
    )


def _points(choices: list[RunChoice], colour: str, size: int) -> Layer:
    return dots(
        [c.days for c in choices],
        [c.run_cost or 0.0 for c in choices],
        [told(c) for c in choices],
        colour=colour,
        size=size,
    )


def curve(result: Any, name: str) -> Chart:
    """Days by interval or by spares, all else as in the best choice, with 80 % intervals of the mean."""
    choices = [c for c in result.curves[name] if c.days <= 3.0 * result.best.days]
    x = [c.interval_s / 60.0 if name == "intervals" else float(c.spares) for c in choices]
    days = [c.days for c in choices]
    bars = [
        {"x": a, "x2": a, "y": c.days_interval[0], "y2": c.days_interval[1]} for a, c in zip(x, choices, strict=True)
    ]
    return Chart(
        title="Days by save interval" if name == "intervals" else "Days by hot spares",
        layers=(
            layer("line", [{"x": a, "y": b} for a, b in zip(x, days, strict=True)], stroke=BLUE),
            layer("rule", bars, stroke=BLUE, strokeWidth=2),
            dots(x, days, [told(c) for c in choices], colour=BLUE),
        ),
        x=Axis(title="minutes of steps between two saves" if name == "intervals" else "hot spares", from_zero=False),
        y=Axis(title="days (mean)", from_zero=False),
        height=260,
    )
