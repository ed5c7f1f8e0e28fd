"""A front of strategies as one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from windtunnel.programs.figures import ACROSS, front_chart
from windtunnel.report.html_shell import card, document, plot, table
from windtunnel.report.quantities import assumed_text
from windtunnel.report.reason.text import answer_tables, headline, population_lines, row, titles

if TYPE_CHECKING:
    from windtunnel.programs.result import ReasonResult


def write(result: ReasonResult, path: str | Path) -> Path:
    """Write the report and return its path."""
    target = Path(path)
    target.write_text(render(result), encoding="utf-8")
    return target


def render(result: ReasonResult) -> str:
    """The whole document. Every text is escaped."""
    several = len({p.model for p in result.points}) > 1
    head = "".join(f"<p>{escape(line)}</p>" for line in (headline(result), *population_lines(result)))
    rows = [[_mark(result, p), *row(p, several_models=several)] for p in result.points]
    warned = [f"{one['label']} on {one['model']}: {one['why']}" for one in result.refused]
    warned += [f"{p.label}: {note}" for p in result.points for note in p.notes]
    parts = [
        f"<header><h1>{escape(result.scenario_name or 'Strategies')}</h1>{head}</header>",
        _warnings([*warned, *result.warnings]),
    ]
    for across in ACROSS:
        if (chart := front_chart(result, across)) is not None:
            parts.append(card(f"Accuracy against {across.name}", "bars: band of the population", plot(chart)))
    hint = "● no other candidate is as good in everything and better in something · ★ best"
    parts.append(card("Candidates", hint, _table(["", *titles(several_models=several)], rows, numbers=True)))
    for title, hint, heads, body in answer_tables(result):
        parts.append(card(title, hint, _table(heads, body, numbers=True)))
    assumed = [(field, assumed_text(field, value), why) for field, value, why in result.assumed]
    if assumed:
        parts.append(card("Assumed", "what the scenario leaves open", _table(("field", "value", "why"), assumed)))
    if result.citations:
        parts.append(card("Sources", "", "".join(f"<p>{escape(line)}</p>" for line in result.citations)))
    return document(f"{result.scenario_name}: strategies", parts)


def _mark(result: ReasonResult, point: object) -> str:
    if point == result.best:
        return "★"
    return "●" if getattr(point, "on_front", False) else ""


def _warnings(lines: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f'<div class="card warn"><b>Warnings</b><ul>{items}</ul></div>' if items else ""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: bool = False) -> str:
    """A table; `numbers` says that columns after the first three are, which stay on one line with their units."""

    def cells(tag: str, row: Sequence[str]) -> str:
        kinds = [' class="n"' if numbers and at > 1 else "" for at in range(len(row))]
        return "".join(f"<{tag}{kind}>{escape(cell)}</{tag}>" for kind, cell in zip(kinds, row, strict=True))

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return table(f"<tr>{cells('th', head)}</tr>", body)
