"""Figures of papers: simulated lines beside published points, bars of claims, claims over what is published."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from windtunnel.reproduce import ClaimResult, experiment_of
from windtunnel.reproduce.claim_tables import key_of, number
from windtunnel.reproduce.settings import load

COLOURS = ("#1f6f8b", "#c0562b", "#5b8c2a", "#7a4fa3", "#b08c1a", "#4a4a4a")

_MARKED, _APART = 10, 1.2
"""Places of a logarithmic axis up to which each has its own mark, where they are so far apart."""

Points = Sequence[tuple[float, float, float]]
"""(x, published, simulated); a published value of NaN shows no point."""


def curve(
    at: Iterable[float], simulate: Callable[..., float], published: Mapping[float, float] | None = None
) -> Points:
    """A line over what the paper sweeps, and its published points, which need not lie where the line has its own."""
    line = [(float(x), math.nan, float(simulate(x))) for x in at]
    return [*line, *((x, value, math.nan) for x, value in (published or {}).items())]


def beside(
    panels: Mapping[str, Mapping[str, Points]],
    x: str,
    y: str,
    *,
    log_x: bool = False,
    levels: Mapping[str, float] | None = None,
) -> Any:
    """One panel next to the other, in each a simulated line and published points of every series.

    Args:
        panels: title → series → points.
        x: title of the horizontal axes.
        y: title of the vertical axis.
        log_x: equal factors evenly spaced.
        levels: published values that say no place, as "up to", by what stands beside their dotted line.
    """
    from plotly.subplots import make_subplots

    figure = make_subplots(1, len(panels), shared_yaxes=True, subplot_titles=list(panels))
    names = list(dict.fromkeys(name for series in panels.values() for name in series))
    for column, series in enumerate(panels.values(), 1):
        for name, points in series.items():
            colour = COLOURS[names.index(name) % len(COLOURS)]
            first = next(i for i, own in enumerate(panels.values(), 1) if name in own) == column
            at = [point[0] for point in points]
            for kind, values, how in (
                ("simulated", [p[2] for p in points], {"mode": "lines", "line": {"color": colour}}),
                ("published", [p[1] for p in points], {"mode": "markers", "marker": {"color": colour}}),
            ):
                if all(math.isnan(value) for value in values):
                    continue
                figure.add_scatter(
                    x=at, y=values, name=f"{name}, {kind}", legendgroup=name, showlegend=first, row=1, col=column, **how
                )
        figure.update_xaxes(title=x, type="log" if log_x else "linear", row=1, col=column)
        marks = sorted({point[0] for points in series.values() for point in points})
        apart = all(after >= _APART * before for before, after in pairwise(marks))
        if log_x and apart and len(marks) <= _MARKED:
            figure.update_xaxes(tickvals=marks, ticktext=[f"{mark:,.6g}" for mark in marks], row=1, col=column)
    for words, value in (levels or {}).items():
        figure.add_hline(y=value, line_width=1, line_dash="dot", annotation_text=words, annotation_position="top left")
    figure.update_yaxes(title=y, row=1, col=1)
    figure.update_layout(template="plotly_white", height=420, margin={"l": 60, "r": 20, "t": 40, "b": 50})
    return figure


_IN, _OUT, _BAND = "#2a7f62", "#c0392b", "rgba(120,130,140,0.25)"


def limits(claim: ClaimResult) -> tuple[float, float]:
    """What its band allows, least and most; infinite where it is open, NaN where the claim has none."""
    low, high = -math.inf, math.inf
    for part in claim.band.split(", ") if claim.band else ():
        first, _, last = part.partition(" to ")
        if last:
            return float(first), float(last)
        bound = float(first.lstrip("=≥≤<> "))
        low = max(low, bound) if first[0] in "=≥>" else low
        high = min(high, bound) if first[0] in "=≤<" else high
    return (low, high) if claim.band else (math.nan, math.nan)


def bars(panels: Mapping[str, Mapping[str, ClaimResult]], y: str) -> Any:
    """Published and simulated bars of claims with one unit; the line on a bar is low to high, the box the band.

    Args:
        panels: title → label under the pair of bars → claim.
        y: title of the vertical axis.
    """
    from plotly.subplots import make_subplots

    widths = [len(claims) + 0.8 for claims in panels.values()]
    figure = make_subplots(1, len(panels), subplot_titles=list(panels), column_widths=widths)
    for column, claims in enumerate(panels.values(), 1):
        names, own = list(claims), list(claims.values())
        for title, colour, heights, error in (
            ("published", "#9aa5ae", [c.published for c in own], None),
            ("simulated, low to high; box: band", COLOURS[0], [c.simulated for c in own], _ends(own, [1.0] * len(own))),
        ):
            figure.add_bar(
                x=names,
                y=heights,
                name=title,
                marker_color=colour,
                error_y=error,
                legendgroup=title,
                showlegend=column == 1,
                row=1,
                col=column,
            )
        top = 1.1 * max(v for c in own for v in (c.published, c.simulated, c.high, limits(c)[1]) if math.isfinite(v))
        for at, claim in enumerate(own):
            low, high = limits(claim)
            if not math.isnan(low):
                figure.add_shape(
                    type="rect",
                    x0=at - 0.45,
                    x1=at + 0.45,
                    y0=max(low, 0.0),
                    y1=min(high, top),
                    fillcolor=_BAND,
                    line={"width": 1, "color": _IN if claim.within else _OUT},
                    row=1,
                    col=column,
                )
    figure.update_yaxes(title=y, row=1, col=1)
    figure.update_yaxes(rangemode="tozero")
    wide = 120 + 84 * sum(widths) + 40 * len(widths)
    figure.update_layout(
        template="plotly_white",
        height=420,
        width=max(wide, 560),
        margin={"l": 60, "r": 20, "t": 60, "b": 50},
        legend={"orientation": "h", "y": 1.2},
    )
    return figure


def ratios(claims: Sequence[ClaimResult]) -> Any:
    """Every claim over its published figure: a bar from 1, its range, its band behind it, figures beside it.

    Claims without such a ratio (published or simulated as nothing) stand in a row of figures alone.
    """
    import plotly.graph_objects as go

    figure, rows = go.Figure(), [f"{key_of(c)} ({c.tier})" if c.tier else key_of(c) for c in claims]
    if len(set(rows)) < len(rows):
        rows = [f"{row} #{at}" if rows.count(row) > 1 else row for at, row in enumerate(rows, 1)]
    drawn = [(row, c) for row, c in zip(rows, claims, strict=True) if c.published and c.simulated / c.published > 0]
    ends = [v / c.published for _, c in drawn for v in (c.simulated, c.low, c.high, *limits(c))]
    ends = [v for v in ends if math.isfinite(v) and v > 0] or [1.0]
    least, most = min(0.5, 0.8 * min(ends)), max(2.0, 1.25 * max(ends))
    for row, claim in drawn:
        low, high = sorted(min(max(v / claim.published, least), most) for v in limits(claim))
        if not math.isnan(low):
            at = rows.index(row)
            figure.add_shape(
                type="rect",
                x0=low,
                x1=high if high > low else low * 1.005,
                y0=at - 0.4,
                y1=at + 0.4,
                fillcolor=_BAND,
                line_width=0,
                layer="below",
            )
    for within, name, colour in ((True, "within its band", _IN), (False, "miss", _OUT)):
        own = [(row, c) for row, c in drawn if c.within is within]
        ratio = [c.simulated / c.published for _, c in own]
        figure.add_bar(
            orientation="h",
            y=[row for row, _ in own],
            x=[x - 1.0 for x in ratio],
            base=1.0,
            name=name,
            width=0.45,
            marker={"color": colour, "line": {"color": colour, "width": 2}},
            error_x=_ends([c for _, c in own], [c.published for _, c in own]),
            hovertext=[c.claim for _, c in own],
            hoverinfo="text",
        )
    for row, claim in zip(rows, claims, strict=True):
        figure.add_annotation(
            x=1.01,
            xref="paper",
            xanchor="left",
            y=row,
            showarrow=False,
            align="left",
            text=f"{number(claim.simulated)} for {number(claim.published)}"
            + ("" if claim.within else f" <span style='color:{_OUT}'>miss</span>"),
        )
    figure.add_annotation(
        x=1.01,
        xref="paper",
        xanchor="left",
        y=1.0,
        yref="paper",
        yanchor="bottom",
        showarrow=False,
        text="<i>simulated for published</i>",
    )
    figure.add_vline(x=1.0, line_width=1)
    marks = (1, 2, 5) if most / least > 8 else (1, 1.2, 1.5, 2, 3, 5, 7, 8, 9)
    figure.update_layout(
        template="plotly_white",
        height=130 + 34 * len(rows),
        barmode="overlay",
        width=1000,
        margin={"l": 20, "r": 190, "t": 40, "b": 50},
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom"},
        xaxis={
            "title": "simulated over published; grey: the band, line: low to high",
            "type": "log",
            "range": [math.log10(least), math.log10(most)],
            "tickvals": [m * 10.0**d for d in range(-4, 6) for m in marks],
        },
        yaxis={"range": [len(rows) - 0.5, -0.5], "categoryarray": rows, "categoryorder": "array", "automargin": True},
    )
    return figure


def drawn(paper: str, claims: Sequence[ClaimResult]) -> Any:
    """The figure of a paper: its own, the bars that its setting names, or every claim over what is published."""
    own = getattr(experiment_of(paper), "plot", None)
    if own is not None:
        return own(list(claims))
    named = load(f"windtunnel.papers.{paper}").get("figure")
    if named is None:
        return ratios(claims)
    by = {key_of(c): c for c in claims}
    panels = {title: {x: by[key] for x, key in keys.items()} for title, keys in named["bars"].items()}
    return bars(panels, named.get("y", ""))


def _ends(claims: Sequence[ClaimResult], unit: Sequence[float]) -> dict[str, Any]:
    """Low to high around the simulated values, as Plotly's error bars; what is never reached has none."""
    ends = [sorted((v - c.simulated) / u for v in (c.low, c.high)) for c, u in zip(claims, unit, strict=True)]
    ends = [[v if math.isfinite(v) else 0.0 for v in pair] for pair in ends]
    array, minus = [high for _, high in ends], [-low for low, _ in ends]
    return {"type": "data", "symmetric": False, "thickness": 1.5, "array": array, "arrayminus": minus}
