"""Figures of papers: simulated lines next to published points, bars of claims, claims over what is published."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from windtunnel.charts.chart import Axis, Chart, Layer, Panels
from windtunnel.charts.colours import INK
from windtunnel.charts.forms import Bar, Bars, dots, horizontal, line, number_ticks
from windtunnel_lab.reproduce import ClaimResult, experiment_of
from windtunnel_lab.reproduce.claim_tables import key_of, number
from windtunnel_lab.reproduce.settings import load

COLOURS = ("#1f6f8b", "#c0562b", "#5b8c2a", "#7a4fa3", "#b08c1a", "#4a4a4a")

_WITHIN, _MISS = "within its band", "miss"
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
) -> Panels:
    """One panel next to the other, in each a simulated line and published points of every series.

    Args:
        panels: title → series → points.
        x: title of the horizontal axes.
        y: title of the vertical axis.
        log_x: equal factors evenly spaced.
        levels: published values that say no place, as "up to", by what stands next to their dotted line.
    """
    names = list(dict.fromkeys(name for series in panels.values() for name in series))
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}
    charts = []
    for title, series in panels.items():
        layers: list[Layer] = []
        for name, points in series.items():
            line_x, line_y = [p[0] for p in points], [p[2] for p in points]
            told = [f"{name}, simulated: {v:.4g} at {a:,.6g}" for a, v in zip(line_x, line_y, strict=True)]
            layers += line(line_x, line_y, series=name, told=told)
            known = [p for p in points if not math.isnan(p[1])]
            words = [f"{name}, published: {p[1]:.4g} at {p[0]:,.6g}" for p in known]
            layers.append(dots([p[0] for p in known], [p[1] for p in known], words, series=name))
        for words_, value in (levels or {}).items():
            layers += horizontal(value, words_, colour=INK, dash=(2, 3))
        places = sorted({point[0] for points in series.values() for point in points})
        own = {name: colours[name] for name in series}
        at = _places(x, places, log_x=log_x)
        charts.append(
            Chart(
                title=title,
                layers=tuple(layers),
                x=at,
                y=Axis(title=f"{y} (line: simulated, dots: published)"),
                series=own,
                heading=True,
            )
        )
    return Panels(tuple(charts), columns=min(len(charts), 2))


def _places(title: str, places: Sequence[float], *, log_x: bool) -> Axis:
    """The horizontal axis over the places that a paper sweeps."""
    if not log_x:
        return Axis(title=title, from_zero=False)
    low, high = places[0] / 1.05, places[-1] * 1.05
    apart = all(after >= _APART * before for before, after in pairwise(places))
    if apart and len(places) <= _MARKED:
        ticks, words = tuple(places), tuple(f"{mark:,.6g}" for mark in places)
    else:
        ticks, words = number_ticks(low, high)
    return Axis(title=f"{title}, log scale", kind="log", low=low, high=high, ticks=ticks, words=words)


_IN, _OUT, _BAND, _PUBLISHED = "#2a7f62", "#c0392b", "#9aa8b2", "#9aa5ae"


def limits(claim: ClaimResult) -> tuple[float, float]:
    """What its interval allows, least and most; infinite where it is open, NaN where the claim has none."""
    low, high = -math.inf, math.inf
    for part in claim.band.split(", ") if claim.band else ():
        first, _, last = part.partition(" to ")
        if last:
            return float(first), float(last)
        bound = float(first.lstrip("=≥≤<> "))
        low = max(low, bound) if first[0] in "=≥>" else low
        high = min(high, bound) if first[0] in "=≤<" else high
    return (low, high) if claim.band else (math.nan, math.nan)


def bars(panels: Mapping[str, Mapping[str, ClaimResult]], y: str) -> Panels:
    """Published and simulated bars of claims with one unit; the line on a bar is low to high, the box the interval.

    Args:
        panels: title → name of the pair of bars → claim.
        y: title of the axis of values.
    """
    charts = []
    for title, claims in panels.items():
        own = list(claims.values())
        top = 1.1 * max(v for c in own for v in (c.published, c.simulated, c.high, limits(c)[1]) if math.isfinite(v))
        pairs: list[Bar] = []
        for name, claim in claims.items():
            low, high = limits(claim)
            box = None if math.isnan(low) else (max(low, 0.0), min(high, top))
            edge = _IN if claim.within else _OUT
            published, simulated = number(claim.published), number(claim.simulated)
            said = f"{name}: published {published}, simulated {simulated}"
            pairs.append(
                Bar(name=f"{name}, published", end=claim.published, series="published", text=published, told=said)
            )
            pairs.append(
                Bar(
                    name=f"{name}, simulated",
                    end=claim.simulated,
                    series="simulated, low to high; box: band",
                    text=simulated,
                    told=said,
                    box=box,
                    box_colour=edge,
                    **_ends(claim, 1.0),
                )
            )
        charts.append(
            Bars(
                title=title,
                bars=tuple(pairs),
                layers=(),
                x=Axis(title=y),
                y=Axis(kind="band"),
                series={"published": _PUBLISHED, "simulated, low to high; box: band": COLOURS[0]},
                heading=True,
                row=24,
            )
        )
    return Panels(tuple(charts), columns=min(len(charts), 2))


def ratios(claims: Sequence[ClaimResult]) -> Chart:
    """Every claim over its published figure: a bar from 1, its range, its interval behind it, figures next to it.

    Claims without such a ratio (published or simulated as nothing) stand in a row of figures alone.
    """
    rows = [f"{key_of(c)} ({c.tier})" if c.tier else key_of(c) for c in claims]
    if len(set(rows)) < len(rows):
        rows = [f"{row} #{at}" if rows.count(row) > 1 else row for at, row in enumerate(rows, 1)]
    return _over_published("Simulated over published", list(zip(rows, claims, strict=True)))


def overview(claims: Sequence[ClaimResult]) -> Chart:
    """Simulated over published of every claim that has such a ratio, with its range; 1 is the paper's figure."""
    shown = [c for c in claims if c.published > 0 and c.low > 0 and math.isfinite(c.high)]
    names = [f"{c.paper} {key_of(c)}" for c in shown]
    names = [f"{name} #{at}" if names.count(name) > 1 else name for at, name in enumerate(names, 1)]
    return _over_published("Simulated over published, all claims", list(zip(names, shown, strict=True)), row=20)


def _over_published(title: str, rows: Sequence[tuple[str, ClaimResult]], *, row: int = 28) -> Chart:
    """A bar from 1 for each claim."""
    drawn: list[Bar] = []
    for name, claim in rows:
        figures = f"{number(claim.simulated)} for {number(claim.published)}" + ("" if claim.within else ", miss")
        if not claim.published or claim.simulated / claim.published <= 0:
            drawn.append(Bar(name=name, start=1.0, end=1.0, series=_WITHIN if claim.within else _MISS, text=figures))
            continue
        ends = sorted(min(max(v / claim.published, 1e-3), 1e3) for v in limits(claim))
        said = f"published {claim.published:.4g}, simulated {claim.simulated:.4g}, band {claim.band}"
        box = None if math.isnan(limits(claim)[0]) else (max(ends[0], 0.2), min(ends[1], 5.0))
        drawn.append(
            Bar(
                name=name,
                start=1.0,
                end=claim.simulated / claim.published,
                series=_WITHIN if claim.within else _MISS,
                text=figures,
                told=f"{claim.claim}\n{said}",
                box=box if box is not None and box[0] < box[1] else None,
                box_colour=_BAND,
                **_ends(claim, claim.published),
            )
        )
    used = {bar.series for bar in drawn}
    places = [v for bar in drawn for v in (bar.end, bar.low, bar.high) if v is not None and v > 0]
    low, high = min([0.5, *places]), max([2.0, *places])
    ticks, words = number_ticks(low / 1.1, high * 1.1)
    return Bars(
        title=title,
        bars=tuple(drawn),
        layers=(),
        x=Axis(
            title="simulated over published, log scale; grey: the band, line: low to high",
            kind="log",
            low=low,
            high=high,
            ticks=ticks,
            words=words,
        ),
        y=Axis(kind="band"),
        series={name: colour for name, colour in ((_WITHIN, _IN), (_MISS, _OUT)) if name in used},
        mark=1.0,
        row=row,
        heading=True,
    )


def drawn(paper: str, claims: Sequence[ClaimResult]) -> Any:
    """The figure of a paper: its own, the bars that its setting names, or every claim over what is published."""
    own = getattr(experiment_of(paper), "plot", None)
    if own is not None:
        return own(list(claims))
    named = load(f"windtunnel_lab.papers.{paper}").get("figure")
    if named is None:
        return ratios(claims)
    by = {key_of(c): c for c in claims}
    panels = {title: {x: by[key] for x, key in keys.items()} for title, keys in named["bars"].items()}
    return bars(panels, named.get("y", ""))


def _ends(claim: ClaimResult, unit: float) -> dict[str, Any]:
    """Low to high of a simulated value; what is never reached has none."""
    ends = sorted((claim.low / unit, claim.high / unit))
    return {"low": ends[0], "high": ends[1]} if all(math.isfinite(v) for v in ends) and ends[0] < ends[1] else {}
