"""Figures of a training result."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Protocol

import numpy as np

from windtunnel.arrays import Floats, Int32s, Ints
from windtunnel.charts.chart import Axis, Chart, Layer, Panels, Row, layer
from windtunnel.charts.colours import IDLE, INK
from windtunnel.charts.forms import Bar, Bars, horizontal
from windtunnel.quantities import seconds
from windtunnel.training.results.colours import colour, memory_colour
from windtunnel.training.results.records import MemoryReport, TraceEvents


class StepFigures(Protocol):
    """The fields of a training result that its figures show."""

    @property
    def scenario_name(self) -> str:
        """Title."""

    @property
    def step_time_s(self) -> float:
        """Seconds of the step."""

    @property
    def breakdown(self) -> dict[str, float]:
        """Class of time → seconds."""

    @property
    def sensitivities(self) -> dict[str, float]:
        """Resource → relative change of step time with 10 % more of it."""

    @property
    def memory(self) -> MemoryReport:
        """Memory of the fullest stage."""

    @property
    def trace(self) -> TraceEvents | None:
        """Tasks of the step, where they were kept."""


def ordered_breakdown(result: StepFigures) -> list[tuple[str, float]]:
    """(class of time, seconds) of every class above a billionth of the step, largest first, idle time last."""
    items = [(name, seconds) for name, seconds in result.breakdown.items() if seconds > 1e-9 * result.step_time_s]
    return sorted(items, key=lambda item: (_is_idle(item[0]), -item[1]))


def _is_idle(name: str) -> bool:
    return any(word in name.lower() for word in ("bubble", "idle"))


def dominant_tags(result: StepFigures, bins: int) -> tuple[Int32s, Int32s]:
    """Tag that fills most of each slice of the step on each stage's first stream.

    Args:
        result: A result with a trace.
        bins: Number of slices of equal length.

    Returns:
        Stages, shape (p,), and the tag that fills most of each slice on the stage's first stream (index into
        `trace.tags`; −1 where it is mostly idle), shape (p, bins).
    """
    trace = result.trace
    if trace is None:
        raise ValueError("the result has no trace: simulate with trace=True")
    stages = np.unique(trace.stage)
    span = max(result.step_time_s, float(trace.end_s.max(initial=0.0)))
    fill = np.zeros((len(trace.tags), bins))
    out = np.full((len(stages), bins), -1, np.int32)
    for row, stage in enumerate(stages):
        mine = (trace.stage == stage) & (trace.stream == trace.stream[trace.stage == stage].min())
        fill[:] = 0.0
        for tag in np.unique(trace.tag[mine]):
            chosen = mine & (trace.tag == tag)
            fill[tag] = _coverage(trace.start_s[chosen] / span * bins, trace.end_s[chosen] / span * bins, bins)
        idle = np.maximum(1.0 - fill.sum(axis=0), 0.0)
        best = fill.argmax(axis=0)
        out[row] = np.where(fill.max(axis=0) > idle, best, -1)
    return stages.astype(np.int32), out


def _coverage(start: Floats, end: Floats, bins: int) -> Floats:
    """Covered share of each bin by intervals in units of bins: the derivative of the running covered length."""
    edges = np.arange(bins + 1, dtype=np.float64)
    steps = np.concatenate([start, end])
    slopes = np.concatenate([np.ones(len(start)), -np.ones(len(end))])
    order = np.argsort(steps, kind="stable")
    at, slope = steps[order], np.cumsum(slopes[order])
    covered = np.concatenate([[0.0], np.cumsum(slope[:-1] * np.diff(at))])
    running = np.interp(edges, at, covered) if len(at) else np.zeros(bins + 1)
    return np.asarray(np.diff(running))


def breakdown_chart(result: StepFigures) -> Chart:
    """Waterfall of the step: classes of time one after another, then the whole step."""
    items = ordered_breakdown(result)
    bars, start = [], 0.0
    for name, value in items:
        text = f"{seconds(value)} · {100 * value / result.step_time_s:.1f} %"
        bars.append(Bar(name=name, start=start, end=start + value, colour=colour(name), text=text))
        start += value
    whole = Bar(name="step", end=result.step_time_s, colour="#37474f", text=f"{seconds(result.step_time_s)} · 100.0 %")
    return Bars(
        title="Where the time of the step goes",
        bars=(*bars, whole),
        layers=(),
        x=Axis(title="seconds into the step, classes added up"),
        y=Axis(kind="band"),
    )


def memory_chart(result: StepFigures) -> Chart:
    """Memory of the stage that peaks highest over the step, stacked by kind, under the device's capacity."""
    memory, gib = result.memory, 2.0**30
    kinds = memory.curve_by_kind or {"allocated": memory.curve_bytes}
    steady = sorted(kinds, key=lambda kind: (np.ptp(kinds[kind]) if len(kinds[kind]) else 0.0, kind))
    drawn = [kind for kind in steady if len(kinds[kind]) and kinds[kind].max() > 0]
    kept = _thin(memory.curve_bytes, 360)
    time_s = np.round(memory.curve_time_s[kept], 6)
    layers, base = [], np.zeros(len(kept))
    rows: list[Row] = []
    for kind in drawn:
        top = base + kinds[kind][kept] / gib
        rows += [
            {"x": float(t), "y": round(float(high), 3), "y2": round(float(low), 3), "series": kind}
            for t, high, low in zip(time_s, top, base, strict=True)
        ]
        base = top
    layers.append(layer("area", rows, interpolate="step-after"))
    layers.append(_told_memory(memory, drawn, kept))
    capacity, reserved = memory.capacity_bytes / gib, memory.peak_reserved_bytes / gib
    layers += horizontal(capacity, f"capacity {capacity:.1f} GiB")
    layers += horizontal(reserved, f"reserved at the peak {reserved:.1f} GiB", colour=INK, dash=(2, 3))
    return Chart(
        title=f"Memory of stage {memory.stage} over the step",
        layers=tuple(layers),
        x=Axis(title="seconds into the step", from_zero=False),
        y=Axis(title="GiB", low=0.0, high=max(capacity, reserved) * 1.08),
        series={kind: memory_colour(kind) for kind in reversed(drawn)},
        height=330,
    )


def _told_memory(memory: MemoryReport, drawn: list[str], kept: Ints) -> Layer:
    """Invisible marks that say what is in memory at some times."""
    kinds = memory.curve_by_kind or {"allocated": memory.curve_bytes}
    rows: list[Row] = []
    for i in kept[:: max(1, len(kept) // 40)]:
        parts = [f"{kind} {kinds[kind][i] / 2**30:.2f} GiB" for kind in reversed(drawn) if kinds[kind][i] > 0]
        told = f"at {memory.curve_time_s[i]:.4g} s: {memory.curve_bytes[i] / 2**30:.2f} GiB\n" + "\n".join(parts)
        rows.append({"x": float(memory.curve_time_s[i]), "told": told})
    return layer("rule", rows, strokeWidth=12, opacity=0.0)


def timeline_chart(result: StepFigures, *, bins: int = 400) -> Chart:
    """Pipeline timeline: stages over time, each slice in the colour of the tag that fills most of it.

    The size of the figure does not grow with the trace.
    """
    stages, tags = dominant_tags(result, bins)
    trace = result.trace
    assert trace is not None
    shown = stages[np.unique(np.linspace(0, len(stages) - 1, min(len(stages), 32)).astype(int))].tolist()
    span = max(result.step_time_s, float(trace.end_s.max(initial=0.0)))
    rows: list[Row] = []
    for stage in shown:
        own = tags[stages.tolist().index(stage)]
        edges = [0, *(np.flatnonzero(np.diff(own)) + 1).tolist(), bins]
        for first, last in pairwise(edges):
            name = trace.tags[int(own[first])] if own[first] >= 0 else "idle"
            a, b = first * span / bins, last * span / bins
            told = f"stage {stage}, {a:.4g} to {b:.4g} s: {name}"
            rows.append({"y": f"stage {stage}", "x": a, "x2": b, "series": name, "told": told})
    names = dict.fromkeys(row["series"] for row in rows)
    return Chart(
        title="Pipeline timeline",
        layers=(layer("bar", rows, height={"band": 1.0}),),
        x=Axis(title="seconds into the step", low=0.0, high=span, grid=False),
        y=Axis(kind="band", names=tuple(f"stage {stage}" for stage in shown), gap=0.12),
        series={name: IDLE if name == "idle" else colour(name) for name in names},
        height=max(26 * len(shown), 40),
    )


def training_charts(result: StepFigures) -> Panels:
    """Timeline (where a trace was kept), memory curve and breakdown."""
    charts = [breakdown_chart(result)]
    if len(result.memory.curve_time_s):
        charts.insert(0, memory_chart(result))
    if result.trace is not None:
        charts.insert(0, timeline_chart(result))
    return Panels(tuple(replace(chart, heading=True) for chart in charts))


def _thin(curve: Floats, most: int) -> Ints:
    """Indices of at most about `most` points that keep the highest point of every slice, the first and the last."""
    n = len(curve)
    if n <= most:
        return np.arange(n)
    edges = np.linspace(0, n, most // 2 + 1).astype(np.int64)[:-1]
    highest = [int(low + np.argmax(curve[low:high])) for low, high in zip(edges, [*edges[1:], n], strict=True)]
    return np.unique(np.concatenate([edges, highest, [n - 1]]))
