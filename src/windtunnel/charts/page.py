"""What stands around charts: a page of its own, or a cell of a notebook. Both follow the theme; nothing is fetched."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files

from windtunnel.charts.colours import AXIS, GRID, INK, MUTED, PAPER, dark_properties

_DARK_NOTEBOOKS = '[data-jp-theme-light="false"] .wt,.vscode-dark .wt,html[theme="dark"] .wt,[data-theme="dark"] .wt'
_NOTEBOOK = (
    f".wt{{--wt-{INK[1:]}:currentColor;--wt-{MUTED[1:]}:color-mix(in srgb,currentColor 68%,transparent);"
    f"--wt-{AXIS[1:]}:color-mix(in srgb,currentColor 45%,transparent);--wt-{PAPER[1:]}:Canvas;"
    f"--wt-{GRID[1:]}:color-mix(in srgb,currentColor 14%,transparent);max-width:760px}}"
    ".wt table{border-collapse:collapse;margin:4px 0 8px;font-size:13px}.wt caption{text-align:left;font-weight:600}"
    ".wt th,.wt td{text-align:left!important;padding:3px 14px 3px 0;border:0;background:none;vertical-align:top}"
    f".wt tr{{border-bottom:1px solid var(--wt-{GRID[1:]},{GRID});background:none!important}}"
    f".wt th{{font-weight:400;color:var(--wt-{MUTED[1:]},{MUTED})}}"
)


def asset(name: str) -> str:
    """Text of a file in `assets/`."""
    return files("windtunnel.charts").joinpath("assets", name).read_text(encoding="utf-8")


def document(title: str, body: Sequence[str], *, style: str = "", script: str = "") -> str:
    """A whole HTML document in one file, light or dark as the reader's system, with a button that changes it.

    Args:
        title: text of the browser's tab, escaped here.
        body: HTML parts, already escaped.
        style: CSS next to that of charts.
        script: JavaScript that runs last.
    """
    dark = dark_properties()
    theme = (
        f"@media screen{{:root[data-theme=dark]{{{dark}color-scheme:dark}}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}color-scheme:dark}}}}"
    )
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{escape(title)} · Windtunnel</title>",
            f"<style>{asset('page.css')}{asset('charts.css')}{style}{theme}</style></head><body>",
            '<button id="theme" type="button">Dark</button><main>',
            *body,
            "</main>",
            f"<script>{asset('theme.js')}{asset('charts.js')}{script}</script>",
            "</body></html>\n",
        ]
    )


def in_notebook(content: str) -> str:
    """HTML for the output cell of a notebook: text in the notebook's colour, charts in its theme.

    Args:
        content: HTML, already escaped.
    """
    dark = "".join(
        part
        for part in (f"{one};" for one in dark_properties().split(";") if one)
        if part.split(":")[0][5:] not in (INK[1:], MUTED[1:], AXIS[1:], GRID[1:], PAPER[1:])
    )
    theme = (
        f"{_DARK_NOTEBOOKS}{{{dark}}}@media (prefers-color-scheme:dark)"
        f'{{body:not([data-jp-theme-light="true"]):not(.vscode-light) .wt{{{dark}}}}}'
    )
    return f'<div class="wt"><style>{asset("charts.css")}{_NOTEBOOK}{theme}</style>{content}</div>'


def figures_table(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """A small table of figures with their names, both escaped here."""
    body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows if value)
    return f"<table><caption>{escape(title)}</caption>{body}</table>"
