"""A chart: layers of marks over two axes, as a Vega-Lite specification for any width, and as SVG.

Reports, notebooks and browsers show the same specification: `spec` gives it as plain data, `svg` draws it with
vl-convert, `save` writes it. Colours are those of a light page; drawn inside a page they follow its theme.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from windtunnel.charts.colours import AXIS, GRID, INK, MUTED, follow_theme
from windtunnel.extras import extra
from windtunnel.files.writing import write_bytes, write_text

Row = dict[str, Any]
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
"""Name of the language; nothing is fetched from it."""
FONT = "Inter, Segoe UI, Helvetica Neue, Helvetica, Arial, sans-serif"
_LETTER = 6.9
"""Pixels of a letter of the axes' text, on average."""
_VERSION = "6.1"
SIZES = {
    "full": (1180, 720, 340),
    "broad": (1040, 340),
    "main": (800, 340),
    "half": (560, 340),
    "third": (380,),
    "notebook": (720, 340),
}
"""Place on a page → pixels of the drawings among which it chooses, widest first; 340 suits a phone."""
_numbers = count()
_LONG_NUMBER = re.compile(r"(\d\.\d\d)\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One axis of a chart."""

    title: str = ""
    """With the unit."""
    kind: str = "quantitative"
    """`quantitative`, `log`, or `band` for names."""
    low: float | None = None
    """Where the axis begins; None: at zero, or at the data of a logarithmic axis."""
    high: float | None = None
    ticks: tuple[float, ...] = ()
    words: tuple[str, ...] = ()
    """Texts of `ticks`."""
    names: tuple[str, ...] = ()
    """Names of an interval axis in their order."""
    room: int = 0
    """Pixels kept for the labels of a vertical axis, so that charts above each other line up."""
    labels: bool = True
    grid: bool = True
    from_zero: bool = True
    gap: float = 0.3
    """Share of an interval that stays empty."""

    def channel(self, *, vertical: bool) -> dict[str, Any]:
        """Type, scale and axis of a Vega-Lite channel."""
        axis: dict[str, Any] = {"title": self.title or None, "grid": self.grid, "labelLimit": 0}
        if self.kind == "band":
            scale = {"domain": list(self.names), "paddingInner": self.gap, "paddingOuter": self.gap / 2}
            axis |= {"grid": False, "ticks": False, "domain": False, "labelPadding": 8, "labelAngle": 0}
            axis |= {} if self.labels else {"labels": False}
            if vertical and self.labels:
                axis["minExtent"] = _LETTER * max(map(len, self.names), default=0)
            return {"type": "nominal", "scale": scale, "axis": axis, "sort": None}
        scale = {"type": "log" if self.kind == "log" else "linear", "nice": False, "zero": False}
        if self.low is not None or self.high is not None:
            scale |= {"domainMin": self.low} if self.low is not None else {}
            scale |= {"domainMax": self.high} if self.high is not None else {}
        if self.kind != "log" and self.low is None and self.from_zero:
            scale |= {"zero": True, "nice": self.high is None}
        if self.ticks:
            axis["values"] = list(self.ticks)
        if self.words:
            axis["labelExpr"] = f"{json.dumps(list(self.words))}[indexof({json.dumps(list(self.ticks))}, datum.value)]"
        if vertical:
            axis |= {"titleAngle": 0, "titleAlign": "left", "titleAnchor": "end", "titleBaseline": "bottom"}
            axis |= {"titleX": 0, "titleY": -8, "tickCount": 5}
            axis |= {"minExtent": self.room, "maxExtent": self.room} if self.room else {}
        axis |= {} if self.labels else {"labels": False, "ticks": False, "title": None}
        return {"type": "quantitative", "scale": scale, "axis": axis}


@dataclass(frozen=True, slots=True)
class Layer:
    """Marks of one kind. Rows hold `x`, `y` and where needed `x2`, `y2`, `series`, `colour`, `text` and `told`."""

    mark: Mapping[str, Any]
    rows: Sequence[Row]
    encoding: Mapping[str, Any] = field(default_factory=dict)
    """Channels next to those that the rows imply."""


def layer(mark: str, rows: Sequence[Row], encoding: Mapping[str, Any] | None = None, **looks: Any) -> Layer:
    """Marks of one kind.

    Args:
        mark: Vega-Lite's name of it.
        rows: one for each mark, or for each point of a line.
        encoding: channels next to those that the rows imply.
        looks: properties of the mark.
    """
    return Layer({"type": mark, **looks}, rows, encoding or {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One pair of axes with its layers."""

    title: str
    """Says what the chart shows, for those who do not see it and where no heading stands above it."""
    layers: tuple[Layer, ...]
    x: Axis
    y: Axis
    height: int = 300
    """Pixels of the plotting area."""
    series: Mapping[str, str] = field(default_factory=dict)
    """Name → colour, of the legend."""
    heading: bool = False
    """Whether the title stands above the chart."""

    def at(self, width: int) -> Chart:
        """The chart as it is laid out in a width: itself, unless its kind says more."""
        return self

    def spec(self, width: int = 720) -> dict[str, Any]:
        """The Vega-Lite specification as plain data.

        Args:
            width: pixels of the whole chart, labels included.
        """
        own = self.at(width)
        return {
            "$schema": SCHEMA,
            "description": own.title,
            **({"title": {"text": own.title, "anchor": "start", "offset": 8}} if own.heading else {}),
            "width": width,
            "height": own.height,
            "autosize": {"type": "fit-x", "contains": "padding"},
            "layer": [own._layer(one, width) for one in own.layers if one.rows],
            "config": _CONFIG,
        }

    def _layer(self, one: Layer, width: int) -> dict[str, Any]:
        """One layer with its data and channels."""
        known = {name for row in one.rows for name in row}
        encoding: dict[str, Any] = {}
        for name, axis in (("x", self.x), ("y", self.y)):
            if name in known:
                encoding[name] = {"field": name, **axis.channel(vertical=name == "y")}
                encoding[name] |= {"stack": None} if axis.kind != "band" else {}
            if f"{name}2" in known:
                encoding[f"{name}2"] = {"field": f"{name}2"}
        if "series" in known:
            encoding["color"] = {"field": "series", "type": "nominal", "sort": None} | self._legend(width)
            encoding["detail"] = {"field": "series"}
        elif "colour" in known:
            encoding["color"] = {"field": "colour", "type": "nominal", "scale": None}
        if "text" in known:
            encoding["text"] = {"field": "text", "type": "nominal"}
        mark = dict(one.mark)
        if "told" in known:
            encoding["description"] = {"field": "told", "type": "nominal"}
        else:
            mark["aria"] = False
        return {"data": {"values": list(one.rows)}, "mark": mark, "encoding": encoding | dict(one.encoding)}

    def _legend(self, width: int) -> dict[str, Any]:
        """Scale and legend of the series: as many columns as fit."""
        names = list(self.series)
        longest = max((len(name) for name in names), default=1) * _LETTER + 34
        columns = max(1, min(len(names), int((width - 10) / longest)))
        legend = {"title": None, "orient": "top", "columns": columns, "labelLimit": 0}
        drawn = {one.mark["type"] for one in self.layers if any("series" in row for row in one.rows)}
        if drawn == {"line"}:  # a line has no fill that a square could show
            legend |= {"symbolType": "stroke", "symbolOpacity": 1, "symbolStrokeWidth": 3}
        else:
            legend |= {"symbolType": "square", "symbolOpacity": 1, "symbolStrokeWidth": 0}
        return {
            "scale": {"domain": names, "range": [self.series[name] for name in names]},
            "legend": legend if len(names) > 1 else None,
        }

    def svg(self, width: int = 720, *, themed: bool = False) -> str:
        """The chart as SVG.

        Args:
            width: pixels of the whole chart.
            themed: whether colours follow the theme of the page around it.
        """
        text = extra("vl_convert").vegalite_to_svg(self.spec(width), vl_version=_VERSION)
        return _lean(text, themed=themed)

    def html(self, size: str = "full") -> str:
        """A figure for a page: drawn once for each width, of which the page shows the one that suits.

        Args:
            size: place on the page, a key of `SIZES`.
        """
        from html import escape

        parts = "".join(f"<div>{self.svg(width, themed=True)}</div>" for width in SIZES[size])
        label = f'tabindex="0" role="group" aria-label="{escape(self.title)}"'
        return f'<figure class="chart {size}" {label}>{parts}</figure>'

    def save(self, path: str | Path, width: int = 720) -> Path:
        """Write the chart; the ending says as what: `.svg`, `.png`, `.json` (its specification) or `.html`.

        Raises:
            ValueError: another ending.
        """
        return save(self, path, width)

    def _repr_html_(self) -> str:
        from windtunnel.charts.page import in_notebook

        return in_notebook(self.html("notebook"))


@dataclass(frozen=True, slots=True)
class Panels:
    """Charts that belong together, in columns where there is room."""

    charts: tuple[Chart, ...]
    columns: int = 1

    def spec(self, width: int = 720) -> dict[str, Any]:
        """One Vega-Lite specification with every chart, as plain data."""
        each = max((width - 16 * (self.columns - 1)) // self.columns, 240)
        rows = [self.charts[at : at + self.columns] for at in range(0, len(self.charts), self.columns)]
        inner = ("$schema", "config", "autosize", "width")
        across = [
            {"hconcat": [{k: v for k, v in c.spec(each).items() if k not in inner} | {"width": each - 80} for c in row]}
            for row in rows
        ]
        return {"$schema": SCHEMA, "vconcat": across, "config": _CONFIG}

    def svg(self, width: int = 720, *, themed: bool = False) -> str:
        """All charts in one SVG, one under the other."""
        y, parts = 0.0, []
        for chart in self.charts:
            text = replace(chart, heading=True).svg(width, themed=themed)
            size = re.search(r'height="([\d.]+)"', text)
            parts.append(text.replace("<svg ", f'<svg y="{y:g}" ', 1))
            y += float(size[1]) + 12 if size else 0
        return f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y:g}">{"".join(parts)}</svg>'

    def html(self, size: str = "full") -> str:
        """Figures for a page; `size` is the place of the whole."""
        each = {1: size, 2: "half"}.get(self.columns, "third")
        return f'<div class="panels c{self.columns}">{"".join(chart.html(each) for chart in self.charts)}</div>'

    def save(self, path: str | Path, width: int = 720) -> Path:
        """Write the charts as `.svg`, `.png`, `.json` or `.html`."""
        return save(self, path, width)

    def _repr_html_(self) -> str:
        from windtunnel.charts.page import in_notebook

        return in_notebook(self.html("notebook"))


def save(chart: Chart | Panels, path: str | Path, width: int) -> Path:
    """Write a chart as its ending says.

    Raises:
        BadInput: the file cannot be written.
        ValueError: an ending other than `.svg`, `.png`, `.json`, `.html`.
    """
    target = Path(path)
    ending = target.suffix.lower()
    if ending == ".svg":
        write_text(target, chart.svg(width))
    elif ending == ".json":
        write_text(target, json.dumps(chart.spec(width), ensure_ascii=False))
    elif ending == ".png":
        write_bytes(target, extra("vl_convert").svg_to_png(chart.svg(width), scale=2))
    elif ending == ".html":
        from windtunnel.charts.page import document

        write_text(target, document(target.stem, [f'<div class="card">{chart.html()}</div>']))
    else:
        raise ValueError(f"{target.name}: a chart is written as .svg, .png, .json or .html")
    return target


def _lean(svg: str, *, themed: bool) -> str:
    """The SVG without what every element repeats, its ids unlike those of other charts on the page."""
    number = next(_numbers)
    svg = re.sub(r'(id="|url\(#)(clip|gradient_)', rf"\1c{number}\2", svg)
    svg = re.sub(r' font-family="[^"]*"| pointer-events="none"| opacity="1"| aria-hidden="true"', "", svg)
    svg = re.sub(r' class="(?:mark|role|background|foreground)[^"]*"', "", svg)
    svg = re.sub(r' aria-roledescription="(?!axis|legend|title)[^"]*"', "", svg)
    svg = re.sub(r' (?:transform|d)="[^"]*"', lambda found: _LONG_NUMBER.sub(r"\1", found[0]), svg)
    svg = re.sub(r"(<svg [^>]*?)( class=\"marks\")", rf'\1 font-family="{FONT}"', svg, count=1)
    return follow_theme(svg) if themed else svg


_CONFIG: dict[str, Any] = {
    "background": None,
    "font": FONT,
    "padding": 4,
    "view": {"stroke": None},
    "axis": {
        "labelColor": INK,
        "titleColor": MUTED,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "gridColor": GRID,
        "domainColor": AXIS,
        "tickColor": AXIS,
        "labelOverlap": True,
        "tickCount": 6,
    },
    "legend": {"labelColor": INK, "labelFontSize": 12, "offset": 26, "rowPadding": 3, "columnPadding": 16},
    "title": {"color": INK, "fontSize": 13, "fontWeight": 600},
    "text": {"fontSize": 12, "color": INK},
    "bar": {"color": "#2f6fb2"},
}
