"""A run on the terminal: days, where they go, checkpoints, and what would make it shorter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from windtunnel.quantities import duration, percent
from windtunnel.report.run.text import (
    assumed_rows,
    checkpoint_line,
    checkpoint_rows,
    figure_rows,
    headline,
    sensitivity_rows,
    spares_rows,
)
from windtunnel.runs.charts import COLOURS

if TYPE_CHECKING:
    from rich.console import RenderableType

    from windtunnel.runs.results import RunResult

_BAR = 28
_LEAST = 5e-4


def summary(result: RunResult) -> RenderableType:
    """Everything about one predicted run, as something `rich` prints."""
    parts: list[RenderableType] = [Text(result.scenario_name, style="bold"), Text(headline(result), style="bold cyan")]
    parts += [Padding(_columns(figure_rows(result)), (1, 0, 0, 2))]
    parts += [_section("Where the time goes"), Padding(_classes(result), (0, 0, 0, 2))]
    parts += [_section("Checkpoints", checkpoint_line(result)), Padding(_tiers(result), (0, 0, 0, 2))]
    if result.sensitivities:
        parts += [_section("What would change the days"), Padding(_columns(sensitivity_rows(result)), (0, 0, 0, 2))]
    if len(result.spares_curve) > 1:
        parts += [_section("How many spares"), Padding(_columns(spares_rows(result)), (0, 0, 0, 2))]
    if rows := assumed_rows(result):
        parts += [
            _section("Assumed", "of the run; `train` says what is of the step"),
            Padding(_columns(rows), (0, 0, 0, 2)),
        ]
    for warning in result.warnings:
        parts.append(Text(f"! {warning}", style="yellow"))
    ended = f"{result.replications} runs from one seed · simulated in {result.simulated_in_s:.1f} s"
    parts.append(Padding(Text(ended, style="dim"), (1, 0, 0, 0)))
    return Group(*parts)


def _section(title: str, note: str = "") -> RenderableType:
    text = Text(title, style="bold")
    if note:
        text.append(f"  {note}", style="dim")
    return Padding(text, (1, 0, 0, 0))


def _columns(rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    return table


def _classes(result: RunResult) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    wall = sum(result.seconds.values())
    for name, value in result.seconds.items():
        if value / wall < _LEAST and name != "work":
            continue
        width = max(round(_BAR * value / wall), 1)
        table.add_row(
            name.replace("_", " "),
            Text("█" * width, style=COLOURS[name]),
            duration(value),
            percent(value / wall),
        )
    return table


def _tiers(result: RunResult) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("to", "mode", "every", "stops the steps", "can be loaded after", "load"):
        table.add_column(name)
    for row in checkpoint_rows(result):
        table.add_row(*row)
    return table
