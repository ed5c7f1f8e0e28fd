"""Learning as one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from windtunnel.learning.charts import ACROSS, loss_chart, shown
from windtunnel.quantities import assumed_text
from windtunnel.report.html_shell import card, document, plot, table
from windtunnel.report.learning.text import (
    goal_line,
    headline,
    law_lines,
    link_rows,
    staleness_rows,
    table_rows,
    target_line,
    verdict_lines,
)

if TYPE_CHECKING:
    from windtunnel.learning.results import LearningResult


def write(result: LearningResult, path: str | Path) -> Path:
    """Write the report and return its path."""
    target = Path(path)
    target.write_text(render(result), encoding="utf-8")
    return target


def render(result: LearningResult) -> str:
    """The whole document. Every text is escaped."""
    goal = f"<p>target: {escape(goal_line(result))}</p>" if result.goal else ""
    head = f"<p>{escape(headline(result))}</p><p>{escape(target_line(result))}</p>{goal}"
    titles, rows = table_rows(result)
    parts = [
        f"<header><h1>{escape(result.scenario_name)}</h1>{head}</header>",
        _warnings([*verdict_lines(result), *result.warnings]),
        card(
            "Algorithms side by side",
            "loss of the proxy; bytes and times of the target",
            _table(titles, rows, numbers=True),
        ),
    ]
    hint = "mean of the seeds; the band is from the lowest to the highest" if len(result.seeds) > 1 else ""
    for across in ACROSS:
        if shown(result, across):
            parts.append(card(f"Loss against {across.name}", hint, plot(loss_chart(result, across))))
    if lines := law_lines(result):
        parts.append(card("By a published law", "", "".join(f"<p>{escape(line)}</p>" for line in lines)))
    if late := staleness_rows(result):
        parts.append(card("Staleness", "", _table(("algorithm", "staleness"), late)))
    parts.append(card("Bytes by link", "of all workers", _table(("algorithm", "link", "bytes"), link_rows(result))))
    grades = [(name, grade) for name, grade in result.grades.items()]
    parts.append(card("How well each figure is known", "", _table(("figure", "grade"), grades)))
    assumed = [(field, assumed_text(field, value), why) for field, value, why in result.assumed]
    if assumed:
        parts.append(card("Assumed", "what the scenario leaves open", _table(("field", "value", "why"), assumed)))
    if result.notes:
        parts.append(card("Notes", "", "".join(f"<p>{escape(note)}</p>" for note in result.notes)))
    if result.citations:
        parts.append(card("Sources", "", "".join(f"<p>{escape(line)}</p>" for line in result.citations)))
    return document(f"{result.scenario_name}: learning", parts)


def _warnings(lines: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f'<div class="card warn"><b>Warnings</b><ul>{items}</ul></div>' if items else ""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: bool = False) -> str:
    """A table; `numbers` says that all but the first column are, which stay on one line with their units."""

    def cells(tag: str, row: Sequence[str]) -> str:
        kinds = [' class="n"' if numbers and at else "" for at in range(len(row))]
        return "".join(f"<{tag}{kind}>{escape(cell)}</{tag}>" for kind, cell in zip(kinds, row, strict=True))

    titles = f"<tr>{cells('th', head)}</tr>"
    return table(titles, "".join(f"<tr>{cells('td', row)}</tr>" for row in rows))
