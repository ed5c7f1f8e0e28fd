"""A run as one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from windtunnel.quantities import assumed_text
from windtunnel.report.html_shell import card, document, plot, table, tile
from windtunnel.report.run.text import (
    checkpoint_line,
    checkpoint_rows,
    figure_rows,
    headline,
    sensitivity_rows,
    spares_rows,
)
from windtunnel.runs.charts import distribution, progress, waterfall

if TYPE_CHECKING:
    from windtunnel.runs.results import RunResult


def write(result: RunResult, path: str | Path) -> Path:
    """Write the report and return its path."""
    target = Path(path)
    target.write_text(render(result), encoding="utf-8")
    return target


def render(result: RunResult) -> str:
    """The whole document. Every text is escaped."""
    tiles = "".join(tile(escape(name), escape(value), escape(note)) for name, value, note in figure_rows(result))
    parts = [
        f"<header><h1>{escape(result.scenario_name)}</h1><p>{escape(headline(result))}</p></header>",
        *(f'<p class="warning">{escape(w)}</p>' for w in result.warnings),
        f'<section class="tiles">{tiles}</section>',
        card("What adds to the ideal days", "mean of all runs", plot(waterfall(result))),
        card("Progress of one run", "stops go back to the copy that is loaded", plot(progress(result))),
        card("Days of all runs", f"{result.replications} runs from one seed", plot(distribution(result))),
        card(
            "Checkpoints",
            checkpoint_line(result),
            _table(("to", "mode", "every", "stops the steps", "can be loaded after", "load"), checkpoint_rows(result)),
        ),
    ]
    causes = sorted(result.failures_by_cause.items(), key=lambda item: -item[1])
    rows = [(name, f"{value:.1f}") for name, value in causes]
    parts.append(card("Failures by cause", f"profile {result.failure_profile}", _table(("cause", "mean count"), rows)))
    if result.sensitivities:
        parts.append(card("What would change the days", "", _table(("change", "days"), sensitivity_rows(result))))
    if len(result.spares_curve) > 1:
        head = ("hot spares", "days (mean)", "cost")
        hint = "cost counts spares as long as the run takes"
        parts.append(card("How many spares", hint, _table(head, spares_rows(result))))
    assumed = [(field, assumed_text(field, value), why) for field, value, why in result.assumed]
    parts.append(card("Assumed", "what the scenario leaves open", _table(("field", "value", "why"), assumed)))
    return document(f"{result.scenario_name}: run", parts)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    titles = "<tr>" + "".join(f"<th>{escape(name)}</th>" for name in head) + "</tr>"
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return table(titles, body)
