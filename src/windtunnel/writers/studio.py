"""A view as plain data, which `studio/static/view.js` draws."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

from windtunnel.views import view as v


def plain(view: v.View, *, charts: bool = False) -> dict[str, Any]:
    """The view as JSON holds it: texts that are only characters as strings, every other record with its `kind`.

    Args:
        view: what to draw.
        charts: whether charts are drawn, as SVG that follows the page's theme; else they are left out.
    """
    sections = v.sections(*view.sections, view.assumptions, view.methods)
    out: dict[str, Any] = _plain(replace(view, sections=sections, assumed=(), citations=()), charts)
    return out


def _plain(value: Any, charts: bool) -> Any:
    if isinstance(value, v.Drawing):
        return {"kind": "drawing", "html": value.draw().html(value.size)} if charts else None
    if isinstance(value, v.Timeline) and not charts:
        return None
    if is_dataclass(value):
        held = {one.name: getattr(value, one.name) for one in fields(value)}
        told = {name: _plain(own, charts) for name, own in held.items() if not _empty(own)}
        return told if isinstance(value, v.View) else {"kind": type(value).__name__.lower(), **told}
    if isinstance(value, tuple):
        return [one for one in (_plain(part, charts) for part in value) if one is not None]
    return value


def _empty(value: Any) -> bool:
    """Whether a field says nothing, so that it is left out."""
    return value is None or (isinstance(value, (str, tuple, bool)) and not value)
