"""The search of a run's choices as one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from windtunnel.report.html_shell import card, document, plot, table
from windtunnel.report.run.search_text import HEAD, TITLES, cells, gain_line, headline, race_line, runner_up_line
from windtunnel.runs.search_figures import curve, days_against_money

if TYPE_CHECKING:
    from windtunnel.runs.run_choice import RunChoice
    from windtunnel.runs.search import RunSearchResult


def write(result: RunSearchResult, path: str | Path) -> Path:
    """Write the report and return its path."""
    target = Path(path)
    target.write_text(render(result), encoding="utf-8")
    return target


def render(result: RunSearchResult) -> str:
    """The whole document. Every text is escaped."""
    lines = [gain_line(result), runner_up_line(result), "" if result.complete else "Stopped: this is the best so far."]
    said = "".join(f"<p>{escape(line)}</p>" for line in lines if line)
    parts = [f"<header><h1>{escape(result.scenario_name)}</h1><p>{escape(headline(result))}</p></header>", said]
    if result.best.run_cost is not None:
        hint = "choices around the best; the line joins those that none beats in days and dollars"
        parts.append(card("Days against dollars", hint, plot(days_against_money(result))))
    parts.append(card("None beats these", "in all that counts", _table(result.front, result)))
    for name, title in TITLES.items():
        if len(result.curves[name]) > 1:
            chart = plot(curve(result, name)) if name != "tiers" else ""
            parts.append(card(title, "all else as in the best choice", chart + _table(result.curves[name], result)))
    parts.append(card("The race", "", f"<p>{escape(race_line(result))}</p>"))
    return document(f"{result.scenario_name}: choices of a run", parts)


def _table(choices: Sequence[RunChoice], result: RunSearchResult) -> str:
    head = "<tr>" + "".join(f"<th>{escape(name)}</th>" for name in HEAD) + "</tr>"
    rows = (cells(one, result) for one in choices)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return table(head, body)
