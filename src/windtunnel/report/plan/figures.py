"""Plotly figures of a search: time against memory, the chosen objectives, tp × pp, stability."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from windtunnel.report.plan.text import RESOURCES, best_row, best_words, cell_words, plan_words, quantity, scale_text
from windtunnel.report.quantities import gib, seconds

if TYPE_CHECKING:
    from windtunnel.planner.analysis.explain_best import Why
    from windtunnel.planner.analysis.stability import Edge, Resource, Stability
    from windtunnel.planner.result import PlanResult, Ranked

INK, MUTED, GRID = "#1f2a33", "#66757f", "#e6eaee"
BEST, TAKEN, OTHER, BAD = "#1565c0", "#2e8b57", "#e0862c", "#b71c1c"
_TICKS = [k * 2**n for n in range(-4, 16) for k in (1.0, 1.5)]
"""Sizes in GiB that a memory axis may name."""
_WORST = 2.5
"""Times of the best beyond which a cell has the last colour."""
_SHADES = [[0.0, "#1565c0"], [0.12, "#5b8db8"], [0.4, "#b5cde2"], [1.0, "#f1f4f7"]]


def _style(figure: Any, height: int, **layout: Any) -> Any:
    figure.update_layout(
        height=height,
        margin={"l": 64, "r": 24, "t": 16, "b": 52},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": INK, "size": 12.5},
        hoverlabel={"align": "left"},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "font": {"size": 12}},
        **layout,
    )
    return figure


def memory_figure(result: PlanResult) -> Any:
    """Step time against reserved memory: simulated plans, and the line below which no plan can be."""
    import plotly.graph_objects as go

    figure = go.Figure()
    best, why = result.best, result.why
    capacity, rows = best.memory.capacity_bytes, _rows_of_best_cluster(result)
    times = [best.step_time_s, *(r.step_time_s for r in rows)]
    sizes = [best.peak_memory_reserved_bytes, capacity, *(r.reserved_bytes or 0.0 for r in rows)]
    if why is not None and why.bound_front.time_s:
        x, y, text = _floor_line(why)
        figure.add_scatter(
            x=x,
            y=y,
            mode="lines",
            line={"color": "#90a4ae", "width": 2, "shape": "hv"},
            name="bound",
            fill="tozeroy",
            fillcolor="rgba(144,164,174,0.16)",
            text=text,
            hovertemplate="%{text}<extra></extra>",
        )
    _add_simulated(figure, rows)
    for name, symbol, tone, size, time_s, words in _named(result):
        figure.add_scatter(
            x=[size / 2**30],
            y=[time_s],
            mode="markers",
            name=name,
            marker={"symbol": symbol, "size": 14, "color": tone, "line": {"color": "#fff", "width": 1.5}},
            text=[f"<b>{name}</b> {seconds(time_s)}, {gib(size)}<br>{words}"],
            hovertemplate="%{text}<extra></extra>",
        )
        times.append(time_s)
        sizes.append(size)
    _mark_capacity(figure, capacity)
    low, high = _window(why, times, best.step_time_s)
    ends = 0.85 * min(*sizes, *(() if why is None else _inside(why, high))) / 2**30, 2.2 * max(sizes) / 2**30
    ticks = [t for t in _TICKS if ends[0] <= t <= ends[1]]
    if len(ticks) > 8:
        ticks = ticks[::2]
    figure.update_xaxes(
        title="reserved memory of a device, GiB",
        type="log",
        gridcolor=GRID,
        tickvals=ticks,
        ticktext=[f"{t:g}" for t in ticks],
        range=[math.log10(end) for end in ends],
    )
    figure.update_yaxes(title="step, seconds", gridcolor=GRID, range=[low, high], zeroline=False)
    return _style(figure, 430)


def _rows_of_best_cluster(result: PlanResult) -> list[Ranked]:
    """Simulated plans whose memory is known, on the best plan's cluster and precision."""
    own = best_row(result)
    return [
        r
        for r in (*result.frontier, *result.front)
        if r.reserved_bytes is not None and (own is None or (r.cluster, r.precision) == (own.cluster, own.precision))
    ]


def _add_simulated(figure: Any, rows: list[Ranked]) -> None:
    """Draw the simulated plans, those that keep to the limits apart from those that do not."""
    for name, fits, mark, tone in (("simulated", True, "circle", OTHER), ("breaks a limit", False, "x", BAD)):
        part = [r for r in rows if (bool(r.fits) and not r.missed) is fits]
        if part:
            figure.add_scatter(
                x=[(r.reserved_bytes or 0.0) / 2**30 for r in part],
                y=[r.step_time_s for r in part],
                mode="markers",
                marker={"symbol": mark, "size": 8, "color": tone, "opacity": 0.85},
                name=name,
                text=[_hover(r) for r in part],
                hovertemplate="%{text}<extra></extra>",
            )


def _mark_capacity(figure: Any, capacity_bytes: float) -> None:
    """Draw the memory of a device."""
    figure.add_vline(x=capacity_bytes / 2**30, line={"color": BAD, "width": 1.5, "dash": "dash"})
    figure.add_annotation(
        x=math.log10(capacity_bytes / 2**30),
        y=1,
        yref="paper",
        text=f"device memory {gib(capacity_bytes)}",
        showarrow=False,
        xanchor="left",
        yanchor="top",
        xshift=6,
        font={"color": BAD, "size": 11.5},
    )


def _floor_line(why: Why) -> tuple[list[float], list[float], list[str]]:
    """The Pareto front of the bounds from little memory to much, and what stands for it."""
    bound_front = why.bound_front
    rows = sorted(
        zip(bound_front.memory_bytes, bound_front.time_s, bound_front.plans, strict=True), key=lambda row: row[0]
    )
    text = [f"bound {seconds(t)}, {gib(m)}<br>{plan_words(p)}" for m, t, p in rows]
    x, y = [m / 2**30 for m, _, _ in rows], [t for _, t, _ in rows]
    return [*x, 1e6], [*y, y[-1]], [*text, text[-1]]


def _window(why: Why | None, times: list[float], best_s: float) -> tuple[float, float]:
    bound_front = () if why is None else why.bound_front.time_s
    low = min([*times, *bound_front[:1]])
    high = max([*times, best_s * 1.35])
    room = 0.06 * (high - low)
    return max(0.0, low - 2 * room), high + room


def _inside(why: Why, high_s: float) -> tuple[float, ...]:
    """Memory of the floors that a window up to `high_s` shows."""
    return tuple(m for m, t in zip(why.bound_front.memory_bytes, why.bound_front.time_s, strict=True) if t <= high_s)


def _named(result: PlanResult) -> list[tuple[str, str, str, float, float, str]]:
    """(name, symbol, colour, bytes, seconds, words) of the plans that have names."""
    best, choice, why = result.best, result.choice, result.why
    out = []
    if result.written is not None:
        own = result.written
        words = plan_words(own.plan)
        out.append(("as written", "square", MUTED, own.peak_memory_reserved_bytes, own.step_time_s, words))
    if why is not None and why.runner_up is not None:
        other = why.runner_up
        words = plan_words(other.plan)
        out.append(("next layout", "diamond", OTHER, other.peak_memory_reserved_bytes, other.step_time_s, words))
    if choice is not None and not choice.same and choice.reserved_bytes is not None:
        out.append(("recommended", "star", TAKEN, choice.reserved_bytes, choice.step_time_s, plan_words(choice.plan)))
    name = "fastest" if result.objectives[0] == "step_time" else "best"
    out.append((name, "star", BEST, best.peak_memory_reserved_bytes, best.step_time_s, best_words(result)))
    return out


def _hover(r: Ranked) -> str:
    memory = "" if r.reserved_bytes is None else f", {gib(r.reserved_bytes)}"
    missed = f"<br>breaks {', '.join(r.missed)}" if r.missed else ""
    return f"{seconds(r.step_time_s)}{memory}<br>{plan_words(r.plan)}{missed}"


def front_figure(result: PlanResult) -> Any:
    """The Pareto front over two objectives; a third one is the colour."""
    import plotly.graph_objects as go

    from windtunnel.planner.objectives import METRICS

    names = result.objectives
    x, y = names[0], names[1]
    rows = sorted((r for r in result.front if all(n in r.values for n in names)), key=lambda r: r.values[x])
    text = [
        "<br>".join([*(f"{n.replace('_', ' ')} {quantity(r.values[n], METRICS[n].unit)}" for n in names), _where(r)])
        for r in rows
    ]
    scales = {n: _scale(METRICS[n].unit, [r.values[n] for r in rows]) for n in names}
    values = {n: [r.values[n] / scales[n][0] for r in rows] for n in names}
    titles = {n: f"{n.replace('_', ' ')}{', ' if scales[n][1] else ''}{scales[n][1]}" for n in names}
    marker: dict[str, Any] = {"size": 10, "color": BEST, "line": {"color": "#fff", "width": 1}}
    if len(names) > 2:
        marker |= {
            "color": values[names[2]],
            "showscale": True,
            "colorscale": "Cividis",
            "colorbar": {"title": {"text": titles[names[2]], "side": "right"}, "thickness": 12},
        }
    figure = go.Figure(
        go.Scatter(
            x=values[x],
            y=values[y],
            text=text,
            marker=marker,
            showlegend=False,
            name="front",
            mode="lines+markers" if len(names) == 2 else "markers",
            hovertemplate="%{text}<extra></extra>",
            line={"color": "#b5cde2", "width": 2},
        )
    )
    for axis, name in ((figure.update_xaxes, x), (figure.update_yaxes, y)):
        better = "more is better" if METRICS[name].maximise else "less is better"
        axis(title=f"{titles[name]} ({better})", gridcolor=GRID)
    return _style(figure, 430)


def _scale(unit: str, values: list[float]) -> tuple[float, str]:
    """What to divide values by, and the unit that they then have."""
    most = max(map(abs, values), default=0.0)
    steps = {
        "s": ((2 * 86400.0, 86400.0, "days"), (2 * 3600.0, 3600.0, "hours")),
        "bytes": ((0.0, 2.0**30, "GiB"),),
        "J": ((1e6, 1e6, "MJ"), (1e3, 1e3, "kJ")),
        "W": ((1e6, 1e6, "MW"), (1e3, 1e3, "kW")),
    }
    for least, size, name in steps.get(unit, ()):
        if most >= least:
            return size, name
    return 1.0, {"1/s": "per second"}.get(unit, unit)


def _where(r: Ranked) -> str:
    device = f"{r.cluster.get('nodes')} nodes of {r.cluster.get('device')}, " if r.cluster else ""
    return f"{plan_words(r.plan)}<br>{device}{r.precision}"


def heat_figure(why: Why) -> Any:
    """Best step of every tp and pp; a bound where nothing was simulated."""
    import plotly.graph_objects as go

    best = min(c.shown_s for c in why.cells)
    tps, pps = sorted({c.tp for c in why.cells}), sorted({c.pp for c in why.cells})
    by = {(c.tp, c.pp): c for c in why.cells}
    z = [[min(by[t, p].shown_s / best, _WORST) if (t, p) in by else None for t in tps] for p in pps]
    hover = [[f"tp {t}, pp {p}<br>{cell_words(by[t, p])}" if (t, p) in by else "" for t in tps] for p in pps]
    figure = go.Figure(
        go.Heatmap(
            z=z,
            x=[str(t) for t in tps],
            y=[str(p) for p in pps],
            colorscale=_SHADES,
            zmin=1.0,
            zmax=_WORST,
            xgap=3,
            ygap=3,
            text=hover,
            hovertemplate="%{text}<extra></extra>",
            hoverongaps=False,
            colorbar={
                "title": {"text": "× the best", "side": "right"},
                "thickness": 12,
                "outlinewidth": 0,
                "tickvals": [1, 1.5, 2, 2.5],
                "ticktext": ["1", "1.5", "2", "2.5 or more"],
            },
        )
    )
    for i, t in enumerate(tps):
        for j, p in enumerate(pps):
            if (t, p) not in by:
                continue
            cell = by[t, p]
            dark = cell.shown_s / best < 1.25
            size = seconds(cell.shown_s).removesuffix(" s") if cell.shown_s >= 1 else seconds(cell.shown_s)
            figure.add_annotation(
                x=i,
                y=j,
                text=f"<b>{size}</b>" if cell.simulated_s is not None else f"≥ {size}",
                showarrow=False,
                font={"color": "#fff" if dark else INK, "size": 12},
            )
            if cell.simulated_s is not None:
                figure.add_shape(
                    type="rect",
                    x0=i - 0.48,
                    x1=i + 0.48,
                    y0=j - 0.46,
                    y1=j + 0.46,
                    line={"color": TAKEN, "width": 2.5} if cell.shown_s == best else {"color": INK, "width": 1.2},
                )
    figure.update_xaxes(title="tp", type="category", showgrid=False)
    figure.update_yaxes(title="pp", type="category", showgrid=False)
    return _style(figure, max(260, 110 + 44 * len(pps)))


def stability_figure(told: Stability) -> Any:
    """For every resource the range of scales in which the layout stays the best."""
    import plotly.graph_objects as go

    figure = go.Figure()
    names = [f"{RESOURCES[r.name]}<br>{quantity(r.amount, r.unit)}" for r in told.resources]
    for name, r in zip(names, told.resources, strict=True):
        low, high = r.below.holds_at, r.above.holds_at
        figure.add_bar(
            y=[name],
            x=[high - low],
            base=[low],
            orientation="h",
            width=0.42,
            showlegend=False,
            marker={"color": "#90b8e0"},
            hovertemplate=f"{scale_text(low)} to {scale_text(high)}<extra></extra>",
        )
        for edge, anchor, shift in ((r.below, "right", -8), (r.above, "left", 8)):
            if edge.lost_at is None:
                continue
            figure.add_scatter(
                x=[edge.holds_at],
                y=[name],
                mode="markers",
                showlegend=False,
                hovertemplate=_lost(edge, r),
                marker={"symbol": "line-ns", "size": 22, "line": {"width": 3, "color": BAD}},
            )
            figure.add_annotation(
                x=math.log10(edge.holds_at),
                y=name,
                text=quantity(r.amount * edge.holds_at, r.unit),
                showarrow=False,
                xanchor=anchor,
                xshift=shift,
                font={"size": 11.5, "color": BAD},
            )
    figure.add_vline(x=1, line={"color": INK, "width": 1.5, "dash": "dot"})
    ticks = [0.125, 0.25, 0.5, 1, 2, 4, 8]
    figure.update_xaxes(
        type="log",
        range=[math.log10(0.075), math.log10(13)],
        tickvals=ticks,
        gridcolor=GRID,
        ticktext=["⅛", "¼", "½", "as it is", "2 ×", "4 ×", "8 ×"],
        title="scale of the resource",
    )
    figure.update_yaxes(autorange="reversed", showgrid=False)
    return _style(figure, 90 + 56 * len(names), barmode="overlay")


def _lost(edge: Edge, r: Resource) -> str:
    what = "nothing fits" if edge.winner is None else plan_words(edge.winner)
    at = edge.lost_at or 0.0
    return f"at {scale_text(at)}, {quantity(r.amount * at, r.unit)}:<br>{what}<extra></extra>"
