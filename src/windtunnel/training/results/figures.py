"""Figures of a training result. Plotly is imported when a figure is drawn."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from windtunnel.arrays import Floats, Int32s, Ints
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


def breakdown_figure(result: StepFigures) -> Any:
    """Waterfall of the step: classes of time one after another, then the whole step."""
    import plotly.graph_objects as go

    items = ordered_breakdown(result)
    names = [name for name, _ in items] + ["step"]
    values = [seconds for _, seconds in items]
    bases = [*np.cumsum([0.0, *values[:-1]]).tolist(), 0.0]
    lengths = [*values, result.step_time_s]
    share = [value / result.step_time_s for value in lengths]
    figure = go.Figure(
        go.Bar(
            y=names,
            x=lengths,
            base=bases,
            orientation="h",
            marker_color=[*(colour(name) for name in names[:-1]), "#37474f"],
            text=[f"{_seconds(s)} · {100 * f:.1f} %" for s, f in zip(lengths, share, strict=True)],
            textposition="outside",
            cliponaxis=False,
            hovertemplate="%{y}: %{text}<extra></extra>",
        )
    )
    figure.update_yaxes(autorange="reversed", ticklabelstandoff=6)
    figure.update_xaxes(title="seconds", range=[0, result.step_time_s * 1.18])
    return _style(figure, height=90 + 30 * len(names))


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.1f} ms" if value >= 1e-4 else f"{value * 1e6:.0f} µs"


def memory_figure(result: StepFigures) -> Any:
    """Memory of the stage that peaks highest over the step, stacked by kind, under the device's capacity."""
    import plotly.graph_objects as go

    memory, gib = result.memory, 2.0**30
    figure = go.Figure()
    kinds = memory.curve_by_kind or {"allocated": memory.curve_bytes}
    steady = sorted(kinds, key=lambda kind: (np.ptp(kinds[kind]) if len(kinds[kind]) else 0.0, kind))
    kept = _thin(memory.curve_bytes, 2_000)
    for kind in steady:
        if not len(kinds[kind]) or kinds[kind].max() <= 0:
            continue
        figure.add_scatter(
            x=np.round(memory.curve_time_s[kept], 6),
            y=np.round(kinds[kind][kept] / gib, 3),
            name=kind,
            stackgroup="memory",
            mode="lines",
            line={"width": 0, "shape": "hv"},
            fillcolor=memory_colour(kind),
            hovertemplate="%{y:.2f} GiB",
        )
    for y, name, colour_, dash, where in (
        (memory.capacity_bytes / gib, "capacity", "#b71c1c", "dash", "top right"),
        (memory.peak_reserved_bytes / gib, "reserved peak", "#37474f", "dot", "top left"),
    ):
        figure.add_hline(
            y=y,
            line={"dash": dash, "color": colour_, "width": 1.5},
            annotation={"text": f"{name} {y:.1f} GiB", "bgcolor": "rgba(255,255,255,.85)", "font": {"color": colour_}},
            annotation_position=where,
        )
    top = max(memory.capacity_bytes, memory.peak_reserved_bytes) / gib
    figure.update_yaxes(title="GiB", range=[0, top * 1.1], ticklabelstandoff=4)
    figure.update_xaxes(title="seconds into the step")
    figure.update_layout(
        hovermode="x unified",
        legend={"traceorder": "reversed", "orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
    )
    return _style(figure, height=420, top=60)


def sensitivity_figure(result: StepFigures) -> Any:
    """Change of the step time, in per cent, with 10 % more of each resource."""
    import plotly.graph_objects as go

    items = sorted(result.sensitivities.items(), key=lambda item: item[1])
    figure = go.Figure(
        go.Bar(
            y=[name for name, _ in items],
            x=[100 * change for _, change in items],
            orientation="h",
            marker_color=["#2e8b57" if change <= 0 else "#c0392b" for _, change in items],
            text=[f"{100 * change:+.2f} %" if abs(change) >= 5e-5 else "none" for _, change in items],
            textposition="outside",
            cliponaxis=False,
            hovertemplate="10 % more %{y}: step time %{text}<extra></extra>",
        )
    )
    extent = max((abs(100 * change) for _, change in items), default=1.0) or 1.0
    low = min(0.0, *(100 * change for _, change in items)) if items else 0.0
    high = max(0.0, *(100 * change for _, change in items)) if items else 0.0
    figure.update_xaxes(title="change of step time, %", range=[low - 0.25 * extent, high + 0.25 * extent])
    figure.update_yaxes(autorange="reversed", ticklabelstandoff=6)
    return _style(figure, height=90 + 34 * max(len(items), 1))


def timeline_figure(result: StepFigures, *, bins: int = 1_600) -> Any:
    """Pipeline timeline: stages over time, each slice in the colour of the tag that fills most of it.

    The size of the figure does not grow with the trace.
    """
    import plotly.graph_objects as go

    stages, tags = dominant_tags(result, bins)
    trace = result.trace
    assert trace is not None
    used = [tag for tag in range(len(trace.tags)) if (tags == tag).any()]
    code = {tag: number + 1 for number, tag in enumerate(used)}
    z = np.vectorize(lambda tag: code.get(int(tag), 0), otypes=[np.int32])(tags)
    palette = ["#eef0f2", *(colour(trace.tags[tag]) for tag in used)]
    names = ["idle", *(trace.tags[tag] for tag in used)]
    n = len(palette)
    scale = [[(i + side) / n, shade] for i, shade in enumerate(palette) for side in (0, 1)]
    span = max(result.step_time_s, float(trace.end_s.max(initial=0.0)))
    figure = go.Figure(
        go.Heatmap(
            z=z,
            x=np.round((np.arange(bins) + 0.5) * span / bins, 6),
            y=[f"stage {stage}" for stage in stages],
            colorscale=scale,
            zmin=-0.5,
            zmax=n - 0.5,
            ygap=2,
            colorbar={"tickvals": list(range(n)), "ticktext": names, "thickness": 12},
            customdata=np.array(names)[z],
            hovertemplate="%{y}, %{x:.4f} s: %{customdata}<extra></extra>",
        )
    )
    figure.update_yaxes(autorange="reversed")
    figure.update_xaxes(title="seconds into the step")
    return _style(figure, height=130 + 34 * min(len(stages), 20))


def training_figure(result: StepFigures) -> Any:
    """Timeline (where a trace was kept), memory curve and breakdown in one figure."""
    from plotly.subplots import make_subplots

    parts = [("Memory", memory_figure(result)), ("Where the time goes", breakdown_figure(result))]
    if result.trace is not None:
        parts.insert(0, ("Pipeline", timeline_figure(result)))
    figure = make_subplots(rows=len(parts), cols=1, subplot_titles=[title for title, _ in parts], vertical_spacing=0.1)
    for row, (_, part) in enumerate(parts, start=1):
        for trace in part.data:
            if trace.type == "heatmap":
                trace.update(showscale=False)
            if trace.type == "bar":
                trace.update(showlegend=False)
            figure.add_trace(trace, row=row, col=1)
        for axis, source in (("xaxis", part.layout.xaxis), ("yaxis", part.layout.yaxis)):
            settings = {k: v for k, v in source.to_plotly_json().items() if k in ("title", "range", "autorange")}
            figure["layout"][f"{axis}{row if row > 1 else ''}"].update(settings)
    capacity = result.memory.capacity_bytes / 2.0**30
    figure.add_hline(y=capacity, line_dash="dash", line_color="#b71c1c", row=len(parts) - 1, col=1)
    figure.update_layout(title=result.scenario_name, barmode="overlay")
    return _style(figure, height=320 * len(parts), top=70)


def _thin(curve: Floats, most: int) -> Ints:
    """Indices of at most about `most` points that keep the highest point of every slice, the first and the last."""
    n = len(curve)
    if n <= most:
        return np.arange(n)
    edges = np.linspace(0, n, most // 2 + 1).astype(np.int64)[:-1]
    highest = [int(low + np.argmax(curve[low:high])) for low, high in zip(edges, [*edges[1:], n], strict=True)]
    return np.unique(np.concatenate([edges, highest, [n - 1]]))


def _style(figure: Any, *, height: int, top: int = 20) -> Any:
    figure.update_layout(
        height=height,
        margin={"l": 20, "r": 20, "t": top, "b": 45},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "Inter, Segoe UI, Helvetica, Arial, sans-serif", "size": 13, "color": "#263238"},
        bargap=0.3,
        showlegend=None,
    )
    figure.update_xaxes(gridcolor="#e3e7ea", zerolinecolor="#b0bec5", automargin=True)
    figure.update_yaxes(gridcolor="#eef1f3", zerolinecolor="#b0bec5", automargin=True)
    return figure
