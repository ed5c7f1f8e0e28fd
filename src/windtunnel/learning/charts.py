"""Charts of learning: loss against steps, simulated hours, bytes and joules, with the interval of the seeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.charts.chart import Axis, Chart, Layer, Panels
from windtunnel.charts.colours import SERIES
from windtunnel.charts.forms import area, horizontal, line, number_ticks
from windtunnel.learning.records import AlgorithmFigures, TimedCurve

_DASHES: tuple[list[int], ...] = ([], [7, 3], [2, 3])
"""Of algorithms beyond the colours there are."""
_MOST_POINTS = 120


class Curves(Protocol):
    """What charts read of a result."""

    @property
    def curves(self) -> tuple[TimedCurve, ...]:
        """All seeds of all algorithms."""

    @property
    def algorithms(self) -> tuple[AlgorithmFigures, ...]:
        """Figures in the order of the legend."""

    @property
    def goal(self) -> dict[str, float]:
        """What curves have to reach."""


@dataclass(frozen=True, slots=True)
class Across:
    """A quantity that loss is shown against."""

    name: str
    title: str
    of: Callable[[TimedCurve], Floats]
    log: bool = False


ACROSS = (
    Across("steps", "local steps of a worker", lambda c: c.step.astype(np.float64)),
    Across("hours", "simulated hours", lambda c: c.time_s / 3600.0),
    Across("bytes", "gigabytes that one worker has sent, log scale", lambda c: c.bytes / 1e9, True),
    Across("joules", "kWh of all workers", lambda c: c.joules / 3.6e6),
)


def learning_figure(result: Curves) -> Panels:
    """All charts that the result has numbers for."""
    return Panels(tuple(loss_chart(result, across) for across in ACROSS if shown(result, across)), columns=2)


def shown(result: Curves, across: Across) -> bool:
    """Whether any curve has numbers along a quantity."""
    return any(np.isfinite(x).any() and np.nanmax(x) > 0 for x in map(across.of, result.curves) if len(x))


def colours(result: Curves) -> dict[str, str]:
    """Label of an algorithm → its colour."""
    return {a.label: SERIES[at % len(SERIES)] for at, a in enumerate(result.algorithms)}


def loss_chart(result: Curves, across: Across) -> Chart:
    """Loss of every algorithm against a quantity: mean of the seeds, and the interval from lowest to highest."""
    paint = colours(result)
    layers: list[Layer] = []
    lines: list[Layer] = []
    places: list[float] = []
    for at, figures in enumerate(result.algorithms):
        own = [c for c in result.curves if c.algorithm == figures.label]
        if not own:
            continue
        x, mean, low, high = seed_band(own, across)
        keep = np.isfinite(x) & ((x > 0) | (not across.log))
        x, mean, low, high = x[keep], mean[keep], low[keep], high[keep]
        if not len(x):
            continue
        places += [float(x.min()), float(x.max())]
        told = [
            f"{figures.label}\n{across.name} {_short(a)}\nloss {m:.4g} ({lo:.4g} to {hi:.4g})"
            for a, m, lo, hi in zip(x, mean, low, high, strict=True)
        ]
        dash = _DASHES[min(at // len(SERIES), len(_DASHES) - 1)]
        looks: dict[str, Any] = {"strokeDash": dash} if dash else {}
        if len(own) > 1:
            tone = paint[figures.label]
            layers.append(area(x.tolist(), high.tolist(), base=low.tolist(), colour=tone, opacity=0.16))
        lines += line(x.tolist(), mean.tolist(), series=figures.label, told=told, **looks)
    goal = result.goal.get("loss")
    marks = horizontal(goal, f"target {goal:g}", below=True) if goal is not None else []
    return Chart(
        title=f"Loss against {across.name}",
        layers=(*layers, *lines, *marks),
        x=_axis(across, places),
        y=_loss_axis(result),
        height=280,
        series=paint,
    )


def seed_band(curves: list[TimedCurve], across: Across) -> tuple[Floats, Floats, Floats, Floats]:
    """(place, mean, lowest, highest loss) over seeds at the points that all of them have; at most some hundred."""
    points = min(len(c.loss) for c in curves)
    at = np.unique(np.linspace(0, points - 1, min(points, _MOST_POINTS)).astype(np.int64))
    x = np.mean([across.of(c)[at] for c in curves], axis=0)
    losses = np.array([c.loss[at] for c in curves])
    return x, losses.mean(axis=0), losses.min(axis=0), losses.max(axis=0)


def _axis(across: Across, places: list[float]) -> Axis:
    if not across.log:
        return Axis(title=across.title)
    low, high = min(places, default=1.0), max(places, default=10.0)
    high = high if high > low else 10.0 * low
    ticks, words = number_ticks(low, high, most=6)
    return Axis(title=across.title, kind="log", low=low, high=high, ticks=ticks, words=words)


def _loss_axis(result: Curves) -> Axis:
    """Losses, in logarithmic steps where they fall over more than a decade."""
    losses = np.concatenate([c.loss for c in result.curves if len(c.loss)] or [np.ones(1)])
    start = max((float(c.loss[0]) for c in result.curves if len(c.loss)), default=1.0)
    low, high = float(losses.min()), min(float(losses.max()), 3.0 * start)
    if low > 0 and high / low > 10.0:
        ticks, words = number_ticks(low / 1.1, high * 1.1, most=6)
        return Axis(
            title="held-out loss, log scale", kind="log", low=low / 1.1, high=high * 1.1, ticks=ticks, words=words
        )
    room = 0.04 * (high - low or 1.0)
    below = 3 * room if result.goal.get("loss") is not None else room  # for the text of the target
    return Axis(title="held-out loss", low=low - below, high=high + room, from_zero=False)


def _short(value: float) -> str:
    return f"{value:,.4g}" if value < 1e4 else f"{value:,.0f}"
