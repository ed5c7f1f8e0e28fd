"""The shell that HTML reports share: one file, styles and Plotly inside, nothing fetched."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any


def document(title: str, body: Sequence[str], *, script: str = "") -> str:
    """A whole HTML document around the parts of a report.

    Args:
        title: text of the browser's tab, escaped here.
        body: HTML parts, already escaped.
        script: JavaScript that runs after them.
    """
    from plotly.offline import get_plotlyjs

    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)} · Windtunnel</title>",
            f"<style>{asset('report.css')}</style>",
            f"<script>{get_plotlyjs()}</script></head><body><main>",
            *body,
            "</main>",
            f"<script>{script}</script>" if script else "",
            "</body></html>\n",
        ]
    )


def asset(name: str) -> str:
    """Text of a file in `assets/`."""
    return files("windtunnel.report").joinpath("assets", name).read_text(encoding="utf-8")


def card(title: str, hint: str, content: str) -> str:
    """A titled box; `content` is HTML."""
    note = f'<p class="hint">{escape(hint)}</p>' if hint else ""
    return f'<div class="card"><div class="head"><h2>{escape(title)}</h2>{note}</div>{content}</div>'


def tile(label: str, value: str, note: str, style: str = "") -> str:
    """A figure with its name above and a note below; all three are HTML, `style` a class of the note."""
    return (
        f'<div class="tile"><div class="label">{label}</div><div class="value">{value}</div>'
        f'<div class="note {style}">{note}</div></div>'
    )


def plot(figure: Any) -> str:
    """A Plotly figure as HTML that uses the Plotly of the document."""
    config = {"displayModeBar": False, "responsive": True}
    return str(figure.to_html(full_html=False, include_plotlyjs=False, config=config))
