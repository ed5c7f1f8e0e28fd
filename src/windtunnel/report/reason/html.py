"""A front of strategies as one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from windtunnel.programs.charts import ACROSS, break_even_chart, front_chart, load_chart
from windtunnel.report.html_shell import card, document, plot, table
from windtunnel.report.reason.text import (
    LEGEND,
    answer_lines,
    answer_tables,
    assumed_rows,
    best_lines,
    headline,
    left_columns,
    population_lines,
    row,
    titles,
    warning_lines,
)

if TYPE_CHECKING:
    from windtunnel.programs.result import ReasonResult


def write(result: ReasonResult, path: str | Path) -> Path:
    """Write the report and return its path."""
    target = Path(path)
    target.write_text(render(result), encoding="utf-8")
    return target


def render(result: ReasonResult) -> str:
    """The whole document. Every text is escaped."""
    said = headline(result)
    head = f"<p><b>{escape(said[0].upper() + said[1:])}</b></p>"
    head += "".join(f"<p><b>{escape(line)}</b></p>" for line in answer_lines(result))
    head += "".join(f'<p class="hint">{escape(line)}</p>' for line in population_lines(result))
    rows = [[_mark(result, p), *row(result, p)] for p in result.points]
    parts = [
        f"<header><h1>{escape(result.scenario_name or 'Strategies')}</h1>{head}</header>",
        _warnings(warning_lines(result)),
    ]
    if figures := best_lines(result):
        parts.append(card("The best candidate", "what is known of each figure", _table((), figures, words=2)))
    if (chart := load_chart(result)) is not None:
        parts.append(card(chart.title, "beside the points: what 99 of 100 problems keep", plot(chart)))
    if (chart := break_even_chart(result)) is not None:
        parts.append(card(chart.title, "dots: the same cost a day", plot(chart)))
    for across in ACROSS:
        if (chart := front_chart(result, across)) is not None:
            parts.append(
                card(
                    f"Accuracy against {across.name}",
                    "bars: band of the population · ring: the best candidate",
                    plot(chart),
                )
            )
    words = 1 + left_columns(result)
    parts.append(card("Candidates", LEGEND, _table(["", *titles(result)], rows, words=words)))
    for title, hint, heads, body in answer_tables(result):
        parts.append(card(title, hint, _table(heads, body, words=2)))
    if assumed := assumed_rows(result):
        hint = "what the scenario leaves open"
        parts.append(card("Assumed", hint, _table(("field", "value", "why"), assumed, words=3)))
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


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], *, words: int) -> str:
    """A table; columns after the first `words` are figures, which stay on one line with their units."""

    def cells(tag: str, row: Sequence[str]) -> str:
        kinds = [' class="n"' if at >= words else "" for at in range(len(row))]
        return "".join(f"<{tag}{kind}>{escape(cell)}</{tag}>" for kind, cell in zip(kinds, row, strict=True))

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return table(f"<tr>{cells('th', head)}</tr>" if head else "", body)
