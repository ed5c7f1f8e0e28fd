"""A view as plain data, which `studio/static/view.js` draws."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

from windtunnel.charts.chart import Panels
from windtunnel.charts.colours import dark_properties
from windtunnel.views import view as v

_WIDTHS = {"full": 1040, "broad": 1040, "main": 800, "half": 560, "third": 380}


def plain(view: v.View, *, charts: bool = False) -> dict[str, Any]:
    """The view as JSON holds it: texts that are only characters as strings, every other record with its `kind`.

    Args:
        view: what to draw.
        charts: whether charts are drawn, as SVG that follows the page's theme; else they are left out.
    """
    sections = v.sections(*view.sections, view.assumptions, view.methods)
    out: dict[str, Any] = _plain(replace(view, sections=sections, assumed=(), citations=()), charts)
    if charts:
        out["dark"] = _dark()
    return out


def timeline(view: v.View) -> dict[str, Any]:
    """The view's timeline as data for the script that draws it; empty without one."""
    for section in view.sections:
        for block in section.blocks:
            if isinstance(block, v.Timeline):
                held = {one.name: getattr(block, one.name) for one in fields(block)}
                return {"hint": section.hint, **held, "dark": _dark()}
    return {}


def _dark() -> dict[str, str]:
    """Properties that give charts the colours of a dark page."""
    pairs = (one.split(":") for one in dark_properties().split(";") if one)
    return {name: value for name, value in pairs}


def _plain(value: Any, charts: bool) -> Any:
    if isinstance(value, v.Drawing):
        return {"kind": "drawing", "charts": _charts(value)} if charts else None
    if isinstance(value, v.Timeline):
        return None  # the page of the timeline shows it
    if is_dataclass(value):
        held = {one.name: getattr(value, one.name) for one in fields(value)}
        shown = {name: _plain(own, charts) for name, own in held.items() if not _empty(own)}
        return shown if isinstance(value, v.View) else {"kind": type(value).__name__.lower(), **shown}
    if isinstance(value, tuple):
        return [one for one in (_plain(part, charts) for part in value) if one is not None]
    return value


def _charts(drawing: v.Drawing) -> list[dict[str, str]]:
    """Title and SVG of each chart."""
    drawn = drawing.draw()
    each = drawn.charts if isinstance(drawn, Panels) else (drawn,)
    width = _WIDTHS[drawing.size if not isinstance(drawn, Panels) or drawn.columns == 1 else "half"]
    return [{"title": one.title, "svg": one.svg(width, themed=True)} for one in each]


def _empty(value: Any) -> bool:
    """Whether a field says nothing, so that it is left out."""
    return value is None or (isinstance(value, (str, tuple, bool)) and not value)
