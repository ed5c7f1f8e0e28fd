"""Plotly figures of a serving run: latencies, load and tokens over time, requests, what an iteration is made of."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.report.plan.figures import BAD, GRID, INK, MUTED
from windtunnel.report.quantities import seconds
from windtunnel.report.serving.text import short, slo_of

if TYPE_CHECKING:
    from windtunnel.serving.results.run_record import TimeSeries
    from windtunnel.serving.results.serving_result import ServingResult

TTFT, TPOT, E2E, RUNNING, WAITING, CACHE = "#1565c0", "#2e8b57", "#5d4a8a", "#2f6fb2", "#e0862c", "#2e8b57"
_CLASSES = {
    "weights": "#1565c0",
    "matrix products": "#2f9e8f",
    "expert weights": "#5d4a8a",
    "expert products": "#8e7cc3",
    "cached keys and values": "#2e8b57",
    "attention of prompts": "#7cb342",
    "all-reduce": "#e8742c",
    "expert exchange": "#d81b7a",
    "pipeline hops": "#e0a100",
    "host": "#8d6e63",
    "sequences": "#bcaaa4",
    "kernel gaps": "#b0bec5",
    "launches": "#78909c",
    "head": "#0097a7",
    "element-wise": "#7fb3d5",
    "scan": "#26a69a",
}
"""Colours of classes of time (`serving.composition`)."""
_CURVE_POINTS, _DOTS, _FEW_INSTANCES = 240, 3000, 8
_INSTANCES = ("#1565c0", "#e0862c", "#2e8b57", "#8e44ad", "#c0392b", "#0097a7", "#8d6e63", "#9e9d24")


def layout(figure: Any, height: int, *, legend: bool = True, **more: Any) -> Any:
    """Looks that figures of serving share."""
    figure.update_layout(
        height=height,
        margin={"l": 66, "r": 20, "t": 30 if legend else 12, "b": 54},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": INK, "size": 12.5},
        hoverlabel={"align": "left"},
        showlegend=legend,
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0, "font": {"size": 12}},
        **more,
    )
    figure.update_xaxes(gridcolor=GRID, zeroline=False)
    figure.update_yaxes(gridcolor=GRID, zeroline=False)
    return figure


def axis_ticks(low: float, high: float) -> tuple[list[float], list[str]]:
    """Times that a logarithmic axis names."""
    values = [m * 10.0**e for e in range(-5, 6) for m in (1, 2, 5)]
    inside = [v for v in values if low <= v <= high]
    while len(inside) > 6:
        inside = [v for v in inside if f"{v:.0e}".startswith("1")] if len(inside) > 9 else inside[::2]
    return inside, [f"{v:g} s" if v >= 1 else f"{v * 1e3:g} ms" if v >= 1e-3 else f"{v * 1e6:g} µs" for v in inside]


def latency_figure(result: ServingResult) -> Any:
    """Share of requests below each TTFT, TPOT and E2E, with the objective where there is one."""
    from plotly.subplots import make_subplots

    names = (("ttft", "TTFT", TTFT), ("tpot", "TPOT", TPOT), ("e2e", "E2E", E2E))
    figure = make_subplots(rows=1, cols=3, shared_yaxes=True, horizontal_spacing=0.035)
    slo = slo_of(result)
    shares = np.unique(np.concatenate([np.linspace(0, 1, _CURVE_POINTS), 1 - np.geomspace(1e-4, 0.05, 30)]))
    for column, (key, name, tone) in enumerate(names, 1):
        values = np.asarray(result.table[f"{key}_s"], np.float64)
        values = values[np.isfinite(values)]
        where = {"row": 1, "col": column}
        figure.update_xaxes(title={"text": name, "standoff": 12}, type="log", **where)
        if not len(values):
            continue
        x = np.quantile(values, shares)
        figure.add_scatter(
            x=x,
            y=100 * shares,
            mode="lines",
            line={"color": tone, "width": 2.5},
            name=name,
            text=[f"{100 * p:.4g} %: {name} up to {seconds(v)}" for v, p in zip(x, shares, strict=True)],
            hovertemplate="%{text}<extra></extra>",
            **where,
        )
        marks = np.array([0.5, 0.9, 0.99])
        at = np.quantile(values, marks)
        figure.add_scatter(
            x=at,
            y=100 * marks,
            mode="markers",
            marker={"color": tone, "size": 8, "line": {"color": "#fff", "width": 1}},
            text=[f"p{100 * p:.0f} {name} {seconds(v)}" for v, p in zip(at, marks, strict=True)],
            hovertemplate="%{text}<extra></extra>",
            **where,
        )
        low, high = max(float(x[0]), 1e-6), float(x[-1])
        if key in slo:
            low, high = min(low, slo[key]), max(high, slo[key])
            figure.add_vline(x=slo[key], line={"color": BAD, "width": 1.5, "dash": "dash"}, **where)
            left = math.log10(slo[key]) > 0.5 * (math.log10(low) + math.log10(high))
            figure.add_annotation(
                x=math.log10(slo[key]),
                y=4,
                text=f"objective {short(slo[key])}",
                showarrow=False,
                xanchor="right" if left else "left",
                xshift=-5 if left else 5,
                font={"color": BAD, "size": 11.5},
                bgcolor="rgba(255,255,255,0.8)",
                **where,
            )
        low, high = low / 1.12, max(high, low * 1.3) * 1.12
        values_at, words = axis_ticks(low, high)
        figure.update_xaxes(range=[math.log10(low), math.log10(high)], tickvals=values_at, ticktext=words, **where)
    figure.update_yaxes(title="share of requests, %", range=[-2, 103], row=1, col=1)
    return layout(figure, 330, legend=False)


def load_figure(result: ServingResult, series: TimeSeries) -> Any:
    """Requests running and waiting, and cache in use, over time; by instance where they are few."""
    from plotly.subplots import make_subplots

    columns = series.columns()
    t, unit = _clock(columns["time_s"])
    figure = make_subplots(rows=3, cols=1, shared_xaxes=True, vertical_spacing=0.055, row_heights=[1, 0.8, 0.8])
    instances = len(series.running_by_instance)
    figure.add_scatter(
        x=t,
        y=columns["running"],
        mode="lines",
        line={"color": RUNNING, "width": 2},
        name="running",
        hovertemplate="%{y:,.1f} running<extra></extra>",
        row=1,
        col=1,
    )
    tone = BAD if result.saturated else WAITING
    figure.add_scatter(
        x=t,
        y=columns["waiting"],
        mode="lines",
        line={"color": tone, "width": 1.5},
        fill="tozeroy",
        name="waiting",
        hovertemplate="%{y:,.1f} waiting<extra></extra>",
        row=2,
        col=1,
    )
    figure.add_scatter(
        x=t,
        y=100 * columns["kv_usage"],
        mode="lines",
        line={"color": CACHE, "width": 2},
        fill="tozeroy",
        name="cache in use",
        hovertemplate="%{y:.1f} % of the cache<extra></extra>",
        row=3,
        col=1,
    )
    if 1 < instances <= _FEW_INSTANCES:
        for i in range(instances):
            for row, values in ((1, series.running_by_instance), (2, series.waiting_by_instance)):
                figure.add_scatter(
                    x=t,
                    y=values[i],
                    mode="lines",
                    line={"color": _INSTANCES[i], "width": 1},
                    opacity=0.55,
                    name=f"instance {i}",
                    legendgroup=f"i{i}",
                    showlegend=row == 1,
                    hovertemplate=f"%{{y:,.1f}} instance {i}<extra></extra>",
                    row=row,
                    col=1,
                )
    elif instances > 1:
        for row, values, factor in (
            (1, series.running_by_instance, 1.0),
            (3, series.kv_usage_by_instance, 100.0),
        ):
            most = (values if row == 3 else values * instances).max(axis=0) * factor
            figure.add_scatter(
                x=t,
                y=most,
                mode="lines",
                line={"color": MUTED, "width": 1, "dash": "dot"},
                name="fullest instance" + ("" if row == 3 else f" × {instances}"),
                showlegend=row == 1,
                hovertemplate="%{y:,.1f} fullest instance<extra></extra>",
                row=row,
                col=1,
            )
    for row, title in ((1, "running"), (2, "waiting"), (3, "cache, %")):
        _from_zero(figure, title, row)
    figure.update_xaxes(title=f"time, {unit}", row=3, col=1)
    return layout(figure, 430, legend=instances > 1, hovermode="x unified")


def tokens_figure(series: TimeSeries) -> Any:
    """Prompt and output tokens a second, and arrivals, over time."""
    from plotly.subplots import make_subplots

    columns = series.columns()
    t, unit = _clock(columns["time_s"])
    figure = make_subplots(rows=3, cols=1, shared_xaxes=True, vertical_spacing=0.055, row_heights=[1, 1, 0.7])
    for row, (key, title, tone, word) in enumerate(
        (
            ("output_tokens_per_s", "output tokens/s", TPOT, "output tokens/s"),
            ("prompt_tokens_per_s", "prompt tokens/s", TTFT, "prompt tokens/s"),
            ("arrivals_per_s", "arrivals/s", MUTED, "requests/s arrive"),
        ),
        1,
    ):
        figure.add_scatter(
            x=t,
            y=columns[key],
            mode="lines",
            line={"color": tone, "width": 1.5},
            fill="tozeroy",
            name=title,
            hovertemplate=f"%{{y:,.1f}} {word}<extra></extra>",
            row=row,
            col=1,
        )
        _from_zero(figure, title, row)
    figure.update_xaxes(title=f"time, {unit}", row=3, col=1)
    return layout(figure, 430, legend=False, hovermode="x unified")


def _from_zero(figure: Any, title: str, row: int) -> None:
    figure.update_yaxes(
        title={"text": title, "standoff": 12, "font": {"size": 12}}, rangemode="tozero", nticks=4, row=row, col=1
    )


def _clock(time_s: Floats) -> tuple[Floats, str]:
    """Times since the first arrival in a unit that suits, and its name."""
    t = time_s - time_s[0]
    for size, name in ((2 * 86400.0, "hours"), (3 * 3600.0, "hours"), (600.0, "minutes")):
        if t[-1] >= size:
            return t / (3600.0 if name == "hours" else 60.0), name
    return t, "seconds"


def shown(values: Floats, most: int = _DOTS) -> Ints:
    """Rows that a scatter shows: an even choice, and the largest values, so that no outlier is lost."""
    rows = np.flatnonzero(np.isfinite(values))
    if len(rows) <= most:
        return rows
    even = rows[np.linspace(0, len(rows) - 1, most - 200).astype(np.int64)]
    largest = rows[np.argpartition(values[rows], -200)[-200:]]
    return np.unique(np.concatenate([even, largest]))


def requests_figure(result: ServingResult) -> Any:
    """Draw the TTFT of requests by arrival, coloured by the length of the prompt."""
    import plotly.graph_objects as go

    table = result.table
    ttft = np.asarray(table["ttft_s"], np.float64)
    rows = shown(ttft)
    arrival = np.asarray(table["arrival_s"], np.float64)[rows]
    if not len(rows):
        return layout(go.Figure(), 330, legend=False)
    unit = _clock(np.array([arrival.min(), arrival.max()]))[1]
    figure = go.Figure(
        go.Scattergl(
            x=(arrival - arrival.min()) / {"hours": 3600.0, "minutes": 60.0, "seconds": 1.0}[unit],
            y=ttft[rows],
            mode="markers",
            text=_request_texts(table, rows),
            hovertemplate="%{text}<extra></extra>",
            marker={"size": 5, "opacity": 0.75, **_prompt_colours(np.asarray(table["input_tokens"])[rows])},
        )
    )
    slo, values = slo_of(result), ttft[rows]
    low, high = float(values.min()), float(values.max())
    if "ttft" in slo:
        figure.add_hline(y=slo["ttft"], line={"color": BAD, "width": 1.5, "dash": "dash"})
        low, high = min(low, slo["ttft"]), max(high, slo["ttft"])
        figure.add_annotation(
            xref="paper",
            x=0.005,
            y=math.log10(slo["ttft"]),
            yanchor="bottom",
            xanchor="left",
            showarrow=False,
            text=f"objective {short(slo['ttft'])}",
            font={"color": BAD, "size": 11.5},
        )
    at, words = axis_ticks(low / 1.15, high * 1.2)
    figure.update_yaxes(
        title="TTFT", type="log", tickvals=at, ticktext=words, range=[math.log10(low / 1.15), math.log10(high * 1.2)]
    )
    figure.update_xaxes(title=f"arrival, {unit}")
    return layout(figure, 360, legend=False)


def _request_texts(table: dict[str, Any], rows: Ints) -> list[str]:
    """Describe each drawn request for its hover text."""
    names = ("input_tokens", "output_tokens", "ttft_s", "queue_s", "e2e_s")
    columns = (np.asarray(table[name])[rows] for name in names)
    return [
        f"request {i:,}<br>prompt {a:,} tokens, answer {b:,}<br>"
        f"TTFT {seconds(x)}, queue time {seconds(w)}<br>E2E {seconds(e)}"
        for i, a, b, x, w, e in zip(rows, *columns, strict=True)
    ]


def _prompt_colours(length: Any) -> dict[str, Any]:
    """Colour requests by the tokens of their prompts, on a log scale with its bar."""
    log = np.log10(np.maximum(length, 1))
    low, high = float(log.min()), float(log.max())
    ticks = [p for e in range(8) for p in (10.0**e, 2 * 10.0**e, 5 * 10.0**e) if low <= math.log10(p) <= high]
    return {
        "color": log,
        "colorscale": "Cividis_r",
        "showscale": high > low,
        "colorbar": {
            "title": {"text": "prompt tokens", "side": "right"},
            "thickness": 12,
            "tickvals": [math.log10(v) for v in ticks],
            "ticktext": [f"{v:,.0f}" for v in ticks],
        },
    }


def composition_figure(composition: dict[str, dict[str, float]], *, shares: bool = True) -> Any:
    """What iterations are made of: one bar an iteration kind, by class.

    Args:
        composition: kind of iteration → class → seconds.
        shares: every bar is as long as the figure; else as long as its iteration takes.
    """
    import plotly.graph_objects as go

    figure = go.Figure()
    names = list(composition)
    classes = list(dict.fromkeys(c for parts in composition.values() for c in parts))
    totals = {n: sum(composition[n].values()) for n in names}
    whole = {n: (totals[n] or 1.0) / 100.0 if shares else 1e-3 for n in names}
    room = {n: totals[n] if shares else max(totals.values()) for n in names}
    for name in classes:
        values = [composition[n].get(name, 0.0) for n in names]
        figure.add_bar(
            y=names,
            x=[v / whole[n] for n, v in zip(names, values, strict=True)],
            orientation="h",
            name=name,
            marker={"color": _CLASSES.get(name, MUTED), "line": {"width": 0}},
            text=[seconds(v) if v > 0.06 * room[n] else "" for n, v in zip(names, values, strict=True)],
            textposition="inside",
            insidetextfont={"color": "#fff"},
            insidetextanchor="middle",
            textangle=0,
            constraintext="none",
            customdata=[seconds(v) for v in values],
            hovertemplate=f"{name}: %{{customdata}}" + (", %{x:.1f} %" if shares else "") + "<extra></extra>",
        )
    figure.update_yaxes(autorange="reversed", automargin=True, ticksuffix="  ")
    if shares:
        figure.update_xaxes(title="share of the time, %", range=[0, 100])
    else:
        figure.update_xaxes(title="milliseconds", rangemode="tozero")
    figure = layout(figure, 126 + 58 * len(names), barmode="stack", bargap=0.3)
    figure.update_layout(legend={"y": 1.02, "traceorder": "normal"}, margin={"t": 56})
    return figure
