"""Forms of charts: horizontal bars with their figures, lines, points, areas, cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from windtunnel.charts.chart import Axis, Chart, Layer, Row, layer
from windtunnel.charts.colours import AXIS, BLUE, DARK_TEXT, INK, LIGHT_TEXT, MUTED, PAPER, RED

_LETTER = 7.2
_HALO: dict[str, Any] = {"stroke": PAPER, "strokeWidth": 1.2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One segment of a horizontal bar."""

    name: str
    """Of its row; segments of one row share it."""
    start: float = 0.0
    end: float
    colour: str = BLUE
    series: str = ""
    """Name in the legend, which replaces `colour`."""
    text: str = ""
    """Next to the bar; inside it where the row has several segments."""
    told: str = ""
    """All of it, for the pointer and the keyboard."""
    low: float | None = None
    """Lower end of its interval."""
    high: float | None = None
    box: tuple[float, float] | None = None
    """A range behind the bar."""
    box_colour: str = AXIS


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars(Chart):
    """Horizontal bars. Names stand before the bars where there is room, else above them."""

    bars: tuple[Bar, ...] = ()
    inside: bool = False
    """Whether texts stand inside the bars."""
    row: int = 30
    """Pixels of a row."""
    mark: float | None = None
    """Where a vertical line stands."""

    def at(self, width: int) -> Chart:
        """Rows, labels and the room for figures in a width."""
        names = list(dict.fromkeys(bar.name for bar in self.bars))
        longest = max((len(name) for name in names), default=1) * _LETTER
        beside = longest < 0.42 * width and width >= 480
        plot = width - (longest + 24 if beside else 24)
        above = not beside
        low, high = self._ends(plot, texts=beside and not self.inside)
        x = replace(self.x, low=low, high=high, grid=beside and self.x.grid)
        y = Axis(kind="band", names=tuple(names), labels=beside)
        rows = self.row + (20 if above else 0)
        return Chart(
            title=self.title,
            layers=(*self._layers(names, above, high - low, plot), *(_moved(one, above) for one in self.layers)),
            x=x,
            y=y,
            height=max(rows * len(names), rows),
            series=self.series,
            heading=self.heading,
        )

    def _ends(self, plot: float, *, texts: bool) -> tuple[float, float]:
        """Ends of the axis, with room for the texts next to the bars where they stand there."""
        log = self.x.kind == "log"
        place = math.log if log else float
        given = [v for v in (self.mark, self.x.low, self.x.high, None if log else 0.0) if v is not None]
        known = [place(v) for bar in self.bars for v in _extent(bar) if math.isfinite(v) and (v > 0 or not log)]
        known = [*known, *map(place, given)] or [0.0, 1.0]
        low, high = min(known), max(known)
        high = high if high > low else low + 1.0
        left = right = 0.0
        for bar in self.bars if texts else ():
            share = min((len(bar.text) * _LETTER + 12) / plot, 0.6)
            ends = [place(v) for v in _extent(bar) if math.isfinite(v) and (v > 0 or not log)]
            if bar.end >= bar.start and ends:
                right = max(right, (max(ends) - low) / (1 - share) + low - high)
            elif ends:
                left = max(left, (high - min(ends)) / (1 - share) + low - high)
        low, high = low - left - (0.02 * (high - low) if low < 0 or log else 0.0), high + right + 0.02 * (high - low)
        return (math.exp(low), math.exp(high)) if log else (low, high)

    def _layers(self, names: list[str], above: bool, span: float, plot: float) -> list[Layer]:
        """Boxes, bars, intervals and texts; `above` puts names and texts over the bars."""
        place: dict[str, Any] = {"height": {"band": 0.42}, "yOffset": 9} if above else {"height": {"band": 0.8}}
        offset: dict[str, Any] = {"yOffset": 9} if above else {}
        boxes = [
            {"y": bar.name, "x": bar.box[0], "x2": bar.box[1], "colour": bar.box_colour} for bar in self.bars if bar.box
        ]
        layers = [layer("bar", boxes, opacity=0.25, height={"band": 0.62 if above else 1.0}, **offset)]
        key = "series" if any(bar.series for bar in self.bars) else "colour"
        rows: list[Row] = [
            {
                "y": bar.name,
                "x": bar.start,
                "x2": bar.end,
                key: bar.series if key == "series" else bar.colour,
                "told": bar.told or f"{bar.name}: {bar.text}",
            }
            for bar in self.bars
        ]
        layers.append(layer("bar", rows, minBandSize=2, **place))
        bands = [
            {"y": bar.name, "x": bar.low, "x2": bar.high}
            for bar in self.bars
            if bar.low is not None and bar.high is not None
        ]
        layers.append(layer("rule", bands, color=INK, strokeWidth=1.4, **offset))
        if self.mark is not None:
            layers.append(layer("rule", [{"x": self.mark}], color=MUTED, strokeWidth=1))
        if self.inside:
            return [*layers, *self._inside(above, span, plot)]
        if above:
            return [*layers, *self._above(names)]
        ends = [
            {
                "y": bar.name,
                "x": max(_extent(bar)) if bar.end >= bar.start else min(_extent(bar)),
                "text": bar.text,
                "right": bool(bar.end >= bar.start),
            }
            for bar in self.bars
            if bar.text
        ]
        for right in (True, False):
            looks: dict[str, Any] = {"align": "left", "dx": 6} if right else {"align": "right", "dx": -6}
            own = [{k: v for k, v in row.items() if k != "right"} for row in ends if row["right"] is right]
            layers.append(layer("text", own, baseline="middle", **looks))
        return layers

    def _above(self, names: list[str]) -> list[Layer]:
        """Names and figures of rows, over their bars."""
        texts = {name: [bar.text for bar in self.bars if bar.name == name and bar.text] for name in names}
        at_left = {"x": {"value": 0}}
        rows = [{"y": name, "text": _cut(name, 44 - sum(map(len, texts[name])))} for name in names]
        figures = [{"y": name, "text": " ".join(texts[name])} for name in names if texts[name]]
        looks: dict[str, Any] = {"baseline": "middle", "yOffset": -13}
        return [
            layer("text", rows, at_left, align="left", stroke=PAPER, strokeWidth=4, strokeJoin="round", **looks),
            layer("text", rows, at_left, align="left", **looks),
            layer("text", figures, {"x": {"value": "width"}}, align="right", dx=-6, color=MUTED, **looks),
        ]

    def _inside(self, above: bool, span: float, plot: float) -> list[Layer]:
        """Texts inside the segments that have room, and names over the rows where they do not stand before them."""
        rows = [
            {"y": bar.name, "x": 0.5 * (bar.start + bar.end), "text": bar.text}
            for bar in self.bars
            if bar.text and abs(bar.end - bar.start) / (span or 1.0) * plot > len(bar.text) * _LETTER + 8
        ]
        offset: dict[str, Any] = {"yOffset": 9} if above else {}
        layers = [layer("text", rows, baseline="middle", align="center", color=LIGHT_TEXT, **offset)]
        if above:
            names = [{"y": name, "text": name} for name in dict.fromkeys(bar.name for bar in self.bars)]
            where = {"x": {"value": 0}}
            layers.append(layer("text", names, where, align="left", baseline="middle", yOffset=-13))
        return layers


def _moved(one: Layer, above: bool) -> Layer:
    """A layer of the caller, at the height of the bars."""
    return Layer({**one.mark, "yOffset": 9, "bandSize": 14} if above else one.mark, one.rows, one.encoding)


def _extent(bar: Bar) -> list[float]:
    """Places on the axis that a bar, its interval and its box reach."""
    places = [bar.start, bar.end, bar.low, bar.high, *(bar.box or ())]
    return [float(v) for v in places if v is not None]


def _cut(text: str, most: int) -> str:
    """Words of at most that many letters."""
    return text if len(text) <= max(most, 12) else text[: max(most, 12) - 1].rstrip() + "…"


def line(
    x: Sequence[float],
    y: Sequence[float],
    *,
    series: str = "",
    colour: str = BLUE,
    told: Sequence[str] = (),
    dots: bool = False,
    **looks: Any,
) -> list[Layer]:
    """A line, and where `told` is given, what the pointer and the keyboard find along it.

    Args:
        x: horizontal places.
        y: vertical places; what is not finite is left out.
        series: name in the legend, whose colour it takes.
        colour: where it has no series.
        told: text that each point shows.
        dots: whether points are seen.
        looks: properties of the line.
    """
    own: Row = {"series": series} if series else {}
    paint: dict[str, Any] = {} if series else {"color": colour}
    kept = [i for i in range(len(x)) if math.isfinite(x[i]) and math.isfinite(y[i])]
    rows = [{"x": float(x[i]), "y": float(y[i]), **own} for i in kept]
    looks = {"strokeWidth": 2, **paint, **looks}
    layers = [layer("line", rows, {"order": {"value": 0}}, **looks)]
    if told:
        step = max(1, len(kept) // 60)
        points = [{"x": float(x[i]), "y": float(y[i]), "told": told[i], **own} for i in kept[::step]]
        seen: dict[str, Any] = {"opacity": 1.0, "size": 45, **_HALO} if dots else {"opacity": 0.0, "size": 160}
        layers.append(layer("point", points, filled=True, **paint, **seen))
    return layers


def area(
    x: Sequence[float], y: Sequence[float], *, base: Sequence[float] | None = None, colour: str = BLUE, **looks: Any
) -> Layer:
    """What lies between a line and zero, or another line `base`."""
    rows = [
        {"x": float(x[i]), "y": float(y[i]), "y2": 0.0 if base is None else float(base[i])}
        for i in range(len(x))
        if math.isfinite(y[i])
    ]
    return layer("area", rows, color=colour, **looks)


def dots(
    x: Sequence[float], y: Sequence[float], told: Sequence[str], *, colour: str = BLUE, series: str = "", **looks: Any
) -> Layer:
    """Points, each with its text."""
    own: Row = {"series": series} if series else {}
    rows = [{"x": a, "y": b, "told": words, **own} for a, b, words in zip(x, y, told, strict=True)]
    own_looks: dict[str, Any] = ({} if series else {"color": colour}) | {"filled": True, "size": 60, **looks}
    return layer("point", rows, **own_looks)


def vertical(x: float, text: str = "", *, colour: str = RED, left: bool = False, y: float = 6.0) -> list[Layer]:
    """A vertical line with its text near the top; `y` in pixels below it, `left` of the line."""
    looks: dict[str, Any] = {"align": "right", "dx": -5} if left else {"align": "left", "dx": 5}
    words = layer("text", [{"x": x, "text": text}] if text else [], {"y": {"value": y}}, color=colour, **looks)
    return [layer("rule", [{"x": x}], color=colour, strokeDash=[5, 4], strokeWidth=1.5), words]


def horizontal(
    y: float, text: str = "", *, colour: str = RED, dash: Sequence[int] = (5, 4), below: bool = False
) -> list[Layer]:
    """A horizontal line with its text at the left, above or `below` it."""
    where = {"x": {"value": 5}}
    sides = {"baseline": "top", "dy": 3} if below else {"baseline": "bottom", "dy": -2}
    looks: dict[str, Any] = {"color": colour, "align": "left", **sides}
    words = layer("text", [{"y": y, "text": text}] if text else [], where, **looks)
    return [layer("rule", [{"y": y}], color=colour, strokeDash=list(dash), strokeWidth=1.5), words]


def time_ticks(low: float, high: float) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """Times in seconds that a logarithmic axis names, and their texts."""
    values = [m * 10.0**e for e in range(-7, 7) for m in (1, 2, 5)]
    inside = [v for v in values if low <= v <= high]
    if len(inside) < 3:
        finer = (m * 10.0**e for e in range(-7, 7) for m in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9))
        inside = [v for v in finer if low <= v <= high]
    while len(inside) > 6:
        inside = [v for v in inside if f"{v:.0e}".startswith("1")] if len(inside) > 9 else inside[::2]
    words = [f"{v:g} s" if v >= 1 else f"{v * 1e3:g} ms" if v >= 1e-3 else f"{v * 1e6:g} µs" for v in inside]
    return tuple(inside), tuple(words)


def time_axis(title: str, low: float, high: float, **more: Any) -> Axis:
    """A logarithmic axis of times in seconds."""
    at, words = time_ticks(low, high)
    return Axis(title=f"{title}, log scale", kind="log", low=low, high=high, ticks=at, words=words, **more)


def shaded(field: str, title: str, **scale: Any) -> dict[str, Any]:
    """Encoding of a number as the colour of points, with its legend; `scale` as Vega-Lite has it."""
    ticks = {"tickCount": 4} if scale.get("type") == "log" else {}
    legend = {"title": title, "orient": "top", "gradientLength": 160, "titleColor": MUTED, **ticks}
    return {"color": {"field": field, "type": "quantitative", "scale": scale, "legend": legend}}


def number_ticks(low: float, high: float, most: int = 8) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """Numbers that a logarithmic axis names: 1, 2 and 5 of every ten, or a few even ones where these are too few."""
    values = [m * 10.0**e for e in range(-9, 13) for m in (1, 2, 5) if low <= m * 10.0**e <= high]
    while len(values) > most:
        values = [v for v in values if f"{v:.0e}".startswith("1")] if len(values) > 1.5 * most else values[::2]
    if len(values) < 3:
        values = [low * (high / low) ** (i / 4) for i in range(5)]
    return tuple(values), tuple(f"{v:,.3g}" if v < 999.5 else f"{v:,.0f}" for v in values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell of a grid of cells."""

    x: str
    y: str
    colour: str
    text: str
    text_colour: str = DARK_TEXT
    told: str = ""
    frame: str = ""
    """Colour of its frame."""
    bold: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid(Chart):
    """Cells in rows and columns; missing ones stay empty."""

    grid: tuple[Cell, ...] = ()

    @classmethod
    def of(
        cls, title: str, grid: Sequence[Cell], *, x: str, y: str, across: Iterable[str], down: Iterable[str]
    ) -> Grid:
        """A grid of cells.

        Args:
            title: what the chart shows.
            grid: cells.
            x: title of the columns.
            y: title of the rows.
            across: names of the columns from left to right.
            down: names of the rows from top to bottom.
        """
        rows = tuple(down)
        return cls(
            title=title,
            layers=(),
            grid=tuple(grid),
            x=Axis(title=x, kind="band", names=tuple(across), gap=0.06),
            y=Axis(title=y, kind="band", names=rows, gap=0.08),
            height=40 * max(len(rows), 1),
        )

    def at(self, width: int) -> Chart:
        """Cells with texts as large as they have room for."""
        rows = [{"x": c.x, "y": c.y, "colour": c.colour, "told": c.told} for c in self.grid]
        layers = [layer("rect", rows, cornerRadius=3)]
        for colour in dict.fromkeys(c.frame for c in self.grid if c.frame):
            framed = [{"x": c.x, "y": c.y} for c in self.grid if c.frame == colour]
            layers.append(layer("rect", framed, fillOpacity=0, stroke=colour, strokeWidth=2.4, cornerRadius=3))
        letters = max((len(c.text) for c in self.grid), default=1)
        size = min(11.5, max((width - 50) / max(len(self.x.names), 1) / letters / 0.58, 6.5))
        for bold in (False, True):
            texts = [{"x": c.x, "y": c.y, "text": c.text, "colour": c.text_colour} for c in self.grid if c.bold is bold]
            layers.append(layer("text", texts, fontWeight=600 if bold else "normal", fontSize=round(size, 1)))
        return Chart(title=self.title, layers=tuple(layers), x=self.x, y=self.y, height=self.height)
