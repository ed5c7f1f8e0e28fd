"""Colours of charts: what stands in a specification, and what it becomes on a dark page."""

from __future__ import annotations

import re
from itertools import pairwise

INK, MUTED, GRID, AXIS, PAPER = "#1f2a33", "#5b6871", "#e6eaee", "#9aa8b2", "#ffffff"
"""Text and strong lines; weak text; grid lines; axes; what lies behind a chart. Each follows the theme."""
BLUE, GREEN, ORANGE, RED, VIOLET, GREY = "#1565c0", "#2e8b57", "#e0862c", "#b71c1c", "#5d4a8a", "#90a4ae"
SERIES = (BLUE, ORANGE, GREEN, "#8e44ad", "#c0392b", "#0097a7", "#8d6e63", "#9e9d24")
"""Colours of series without a meaning of their own, in the order in which they are used."""
LIGHT_TEXT, DARK_TEXT = "#fefefe", "#10181f"
"""Text on a coloured mark: the same in both themes, as the mark is."""
IDLE = "#cfd4da"

_DARK = {
    INK: "#e6edf3",
    MUTED: "#9fb0bd",
    GRID: "#2c3742",
    AXIS: "#5d6d79",
    PAPER: "#182029",
    BLUE: "#5a9ae6",
    GREEN: "#4fb37f",
    RED: "#ef6b6b",
    VIOLET: "#9d8bd0",
    "#2f6fb2": "#5b97d6",
    "#8e44ad": "#b67bd0",
    "#c0392b": "#e2675a",
    "#37474f": "#a9b8c2",
    "#607d8b": "#8fa7b3",
    IDLE: "#4a5762",
    "#f4f6f8": "#0f151b",
    "#e1e6ea": "#2c3742",
    "#eef2f5": "#232e38",
    "#fdecec": "#3a1d1f",
    "#e5a3a3": "#7d3a3a",
    "#fff8e6": "#332b17",
    "#f0dca4": "#6b5a2a",
    "#90b8e0": "#3f6f9f",
    "#455a64": "#8fa3ae",
    "#6d4c41": "#a98878",
    "#795548": "#ab8a7d",
    "#8d6e63": "#b39387",
    "#ad1457": "#d8578c",
    "#827717": "#b5aa4a",
    "#00838f": "#3fb0bb",
    "#d81b7a": "#ec5ea5",
    "#4a4a4a": "#b0b0b0",
    "#1f6f8b": "#4ba3c3",
    "#7a4fa3": "#a57fcb",
    "#2a7f62": "#4fb592",
}
"""Colour on a light page → on a dark one, of colours that a dark page needs lighter or darker; others stay."""

_ATTRIBUTE = re.compile(r'\b(fill|stroke)="(#[0-9a-f]{6})"')


def css_variable(colour: str) -> str:
    """A colour as CSS that follows the theme.

    Args:
        colour: `#rrggbb` of a light page.

    Example:
        >>> css_variable("#1565c0"), css_variable("#e0862c")
        ('var(--wt-1565c0,#1565c0)', '#e0862c')
    """
    return f"var(--wt-{colour[1:]},{colour})" if colour in _DARK else colour


def follow_theme(svg: str) -> str:
    """An SVG whose fills and strokes follow the theme of the page around it."""
    return _ATTRIBUTE.sub(lambda found: f'{found[1]}="{css_variable(found[2])}"', svg)


def dark_properties() -> str:
    """CSS declarations that give every colour its value on a dark page."""
    return "".join(f"--wt-{light[1:]}:{dark};" for light, dark in _DARK.items())


def shade(share: float) -> tuple[str, str]:
    """Colour of a cell between best (0) and worst (1), and of the text on it."""
    stops = ((0.0, (22, 101, 192)), (0.12, (91, 141, 184)), (0.4, (181, 205, 226)), (1.0, (233, 238, 243)))
    share = min(max(share, 0.0), 1.0)
    for (low, a), (high, b) in pairwise(stops):
        if share <= high:
            part = (share - low) / (high - low)
            mixed = [round(x + part * (y - x)) for x, y in zip(a, b, strict=True)]
            return "#" + "".join(f"{value:02x}" for value in mixed), LIGHT_TEXT if share < 0.2 else DARK_TEXT
    return "#e9eef3", DARK_TEXT
