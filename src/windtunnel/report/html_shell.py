"""The shell that HTML reports share: one file, styles, scripts and charts inside, nothing fetched."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from windtunnel.charts import page
from windtunnel.charts.colours import css_variable

if TYPE_CHECKING:
    from windtunnel.charts.chart import Chart, Panels


def document(title: str, body: Sequence[str], *, script: str = "") -> str:
    """A whole HTML document around the parts of a report, light or dark as the reader's system.

    Args:
        title: text of the browser's tab, escaped here.
        body: HTML parts, already escaped.
        script: JavaScript that runs after them.
    """
    return page.document(title, body, style=asset("report.css"), script=script)


def asset(name: str) -> str:
    """Text of a file in `assets/`."""
    return files("windtunnel.writers").joinpath("assets", name).read_text(encoding="utf-8")


def card(title: str, hint: str, content: str) -> str:
    """A titled box; `content` is HTML."""
    note = f'<p class="hint">{escape(hint)}</p>' if hint else ""
    return f'<section class="card"><div class="head"><h2>{escape(title)}</h2>{note}</div>{content}</section>'


def tile(label: str, value: str, note: str, style: str = "") -> str:
    """A figure with its name above and a note below; all three are HTML, `style` a class of the note."""
    return (
        f'<div class="tile"><div class="label">{label}</div><div class="value">{value}</div>'
        f'<div class="note {style}">{note}</div></div>'
    )


def fill(colour: str, width: float | None = None) -> str:
    """The attribute that fills an element with a colour that follows the theme; `width` in per cent."""
    wide = "" if width is None else f"width:{width:.2f}%;"
    return f'style="{wide}background:{css_variable(colour)}"'


def table(head: str, rows: str, *, stacked: bool = False) -> str:
    """A table that scrolls inside its card where the screen is narrower.

    Args:
        head: HTML row of its titles.
        rows: HTML rows.
        stacked: on a phone every cell stands in a line of its own, after its `data-label`.
    """
    kind = ' class="stacked"' if stacked else ""
    return f'<div class="wide" tabindex="0"><table{kind}><thead>{head}</thead><tbody>{rows}</tbody></table></div>'


def plot(chart: Chart | Panels, size: str = "full") -> str:
    """A chart as HTML.

    Args:
        chart: what to draw.
        size: its place on the page: `full`, `half` or `third` of the width.
    """
    return chart.html(size)
