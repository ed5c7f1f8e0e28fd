"""Plotly figures of a sweep of loads: latency and goodput against load, what users get against what devices give."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from windtunnel.report.plan.figures import BAD, BEST, MUTED, TAKEN
from windtunnel.report.serving.figures import TPOT, TTFT, axis_ticks, layout
from windtunnel.report.serving.text import short, slo_of

if TYPE_CHECKING:
    from windtunnel.serving.sweeps.load_sweep import Point, SweepResult

_LINES = (("p50", 2.5, "solid"), ("p90", 1.5, "dash"), ("p99", 1.5, "dot"))


def _hover(p: Point, unit: str) -> str:
    r = p.result
    return (
        f"<b>{p.load:,.4g} {unit}</b><br>TTFT {short(r.ttft_s.p50)}, p99 {short(r.ttft_s.p99)}<br>"
        f"TPOT {short(r.tpot_s.p50)}, p99 {short(r.tpot_s.p99)}<br>{r.throughput_requests_per_s:,.4g} requests/s done, "
        f"{100 * r.slo_attainment:.1f} % meet the objective"
    )


def _marked(figure: Any, result: SweepResult, rows: int) -> None:
    """Knee, best goodput and saturation as lines over all rows."""
    loads = [p.load for p in result.tried]
    for row in range(1, rows + 1):
        where = {"row": row, "col": 1}
        if result.saturation is not None:
            figure.add_vrect(
                x0=result.saturation,
                x1=max(loads) * 1.5,
                fillcolor=BAD,
                opacity=0.07,
                line_width=0,
                layer="below",
                **where,
            )
        if result.knee is not None:
            figure.add_vline(x=result.knee.load, line={"color": BEST, "width": 1.5, "dash": "dash"}, **where)
    if result.saturation is not None:
        width = math.log(_right_end(result) / result.tried[0].load)
        room = math.log(_right_end(result) / result.saturation) > 0.2 * width
        _label(figure, result.saturation, "saturated", BAD, 0.995 if room else 0.93, "left" if room else "right")
    if result.knee is not None:
        _label(figure, result.knee.load, f"knee {result.knee.load:,.4g}", BEST, 0.995, "right")


def _label(figure: Any, load: float, text: str, tone: str, y: float, side: str) -> None:
    figure.add_annotation(
        x=math.log10(load),
        y=y,
        yref="paper",
        text=text,
        showarrow=False,
        xanchor=side,
        yanchor="top",
        xshift=-5 if side == "right" else 5,
        font={"color": tone, "size": 11.5},
        bgcolor="rgba(255,255,255,0.8)",
    )


def _loads(figure: Any, result: SweepResult, rows: int) -> None:
    """The axis of loads below all rows."""
    low, high = result.tried[0].load, _right_end(result)
    ticks = [m * 10.0**e for e in range(-4, 7) for m in (1, 2, 5) if low / 1.1 <= m * 10.0**e <= high]
    if len(ticks) < 3:
        ticks = [low * (high / low) ** (i / 4) for i in range(5)]
    figure.update_xaxes(
        type="log",
        range=[math.log10(low / 1.08), math.log10(high)],
        tickvals=ticks,
        ticktext=[f"{t:,.3g}" for t in ticks],
    )
    titles = {"rate": "offered load, requests/s", "concurrency": "requests in flight", "time_scale": "times the rate"}
    figure.update_xaxes(title=titles[result.axis], row=rows, col=1)


def _right_end(result: SweepResult) -> float:
    """Where the axis ends: past what was asked for and what was found, not past every load that a search tried."""
    found = [p.load for p in result.points] + [v for v in (result.saturation, result.broken) if v is not None]
    return max(found) * 1.2


def load_curve(result: SweepResult) -> Any:
    """TTFT and TPOT percentiles against load."""
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.06)
    inside = [p for p in result.tried if p.load <= _right_end(result)]
    x = [p.load for p in inside]
    slo = slo_of(result.best.result)
    for row, (key, name, tone) in enumerate((("ttft", "TTFT", TTFT), ("tpot", "TPOT", TPOT)), 1):
        values: list[float] = []
        for quantile, width, dash in _LINES:
            y = [float(getattr(getattr(p.result, f"{key}_s"), quantile)) for p in inside]
            values += [v for v in y if v == v]
            figure.add_scatter(
                x=x,
                y=y,
                mode="lines+markers" if quantile == "p50" else "lines",
                name=quantile,
                legendgroup=quantile,
                showlegend=row == 1,
                line={"color": tone, "width": width, "dash": dash},
                marker={"size": [7 if p.asked else 0 for p in inside], "color": tone},
                text=[_hover(p, result.unit) for p in inside],
                hovertemplate="%{text}<extra></extra>",
                row=row,
                col=1,
            )
        low, high = min(values, default=1e-3), max(values, default=1.0)
        if key in slo:
            figure.add_hline(y=slo[key], line={"color": BAD, "width": 1.5, "dash": "dash"}, row=row, col=1)
            figure.add_annotation(
                xref="paper",
                x=0.005,
                y=math.log10(slo[key]),
                xanchor="left",
                yanchor="bottom",
                showarrow=False,
                text=f"objective {short(slo[key])}",
                font={"color": BAD, "size": 11.5},
                row=row,
                col=1,
            )
            low, high = min(low, slo[key]), max(high, slo[key])
        at, words = axis_ticks(low / 1.2, high * 1.5)
        figure.update_yaxes(
            title=name,
            type="log",
            tickvals=at,
            ticktext=words,
            range=[math.log10(low / 1.2), math.log10(high * 1.5)],
            row=row,
            col=1,
        )
    _marked(figure, result, 2)
    figure = layout(figure, 520)
    _loads(figure, result, 2)
    return figure


def goodput_curve(result: SweepResult) -> Any:
    """Requests done and requests that met the objective, a second, against load; their share below."""
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.06, row_heights=[1, 0.6])
    inside = [p for p in result.tried if p.load <= _right_end(result)]
    x, text = [p.load for p in inside], [_hover(p, result.unit) for p in inside]
    size = [7 if p.asked else 0 for p in inside]
    if result.axis == "rate":
        figure.add_scatter(
            x=x,
            y=x,
            mode="lines",
            name="offered",
            line={"color": MUTED, "width": 1, "dash": "dot"},
            hoverinfo="skip",
            row=1,
            col=1,
        )
    lines = [("done", [p.result.throughput_requests_per_s for p in inside], MUTED)]
    if result.objective:
        lines.append(("goodput", [p.result.goodput_requests_per_s for p in inside], TAKEN))
    for name, y, tone in lines:
        figure.add_scatter(
            x=x,
            y=y,
            mode="lines+markers",
            name=name,
            line={"color": tone, "width": 2.5},
            marker={"size": size, "color": tone},
            text=text,
            hovertemplate="%{text}<extra></extra>",
            row=1,
            col=1,
        )
    if result.objective:
        figure.add_scatter(
            x=[result.best.load],
            y=[result.best.result.goodput_requests_per_s],
            mode="markers",
            name="best goodput",
            marker={"symbol": "star", "size": 15, "color": TAKEN, "line": {"color": "#fff", "width": 1.5}},
            text=[_hover(result.best, result.unit)],
            hovertemplate="%{text}<extra></extra>",
            row=1,
            col=1,
        )
        share, title = [100 * p.result.slo_attainment for p in inside], "meet it, %"
        wanted = 100 * slo_of(result.best.result)["percentile"]
        figure.add_hline(y=wanted, line={"color": BAD, "width": 1.5, "dash": "dash"}, row=2, col=1)
    else:
        share, title = [100 * p.result.kv_cache_usage_max for p in inside], "cache at most, %"
    figure.add_scatter(
        x=x,
        y=share,
        mode="lines+markers",
        showlegend=False,
        line={"color": TAKEN, "width": 2},
        marker={"size": size, "color": TAKEN},
        text=text,
        hovertemplate="%{text}<extra></extra>",
        row=2,
        col=1,
    )
    most = 1.15 * max(max(y) for _, y, _ in lines)
    figure.update_yaxes(title="requests/s", range=[0, most], row=1, col=1)
    figure.update_yaxes(title=title, range=[-3, 106], row=2, col=1)
    _marked(figure, result, 2)
    figure = layout(figure, 520)
    _loads(figure, result, 2)
    return figure


def users_figure(result: SweepResult) -> Any:
    """Tokens a second that one user sees against those that one device gives; along the line the load grows."""
    import plotly.graph_objects as go

    inside = [p for p in result.tried if p.load <= _right_end(result)]
    figure = go.Figure(
        go.Scatter(
            x=[p.result.output_tokens_per_s_per_user for p in inside],
            y=[p.result.output_tokens_per_s_per_device for p in inside],
            mode="lines+markers",
            line={"color": "#90a4ae", "width": 2},
            showlegend=False,
            marker={
                "size": [9 if p.asked else 0 for p in inside],
                "color": [BAD if p.result.saturated else BEST for p in inside],
            },
            text=[_hover(p, result.unit) for p in inside],
            hovertemplate="%{text}<extra></extra>",
        )
    )
    named = [("knee", result.knee, BEST)] if result.knee is not None else []
    for name, point, tone in named:
        figure.add_scatter(
            x=[point.result.output_tokens_per_s_per_user],
            y=[point.result.output_tokens_per_s_per_device],
            mode="markers+text",
            text=[f"{name} {point.load:,.4g}"],
            textposition="middle right",
            showlegend=False,
            marker={"symbol": "star", "size": 15, "color": tone, "line": {"color": "#fff", "width": 1.5}},
            textfont={"color": tone},
            hoverinfo="skip",
            cliponaxis=False,
        )
    figure.update_xaxes(title="output tokens/s of one user (1 / median TPOT)", rangemode="tozero")
    figure.update_yaxes(title="output tokens/s per device", rangemode="tozero")
    return layout(figure, 380, legend=False)
