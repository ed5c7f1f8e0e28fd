"""Strategies of inference-time compute on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from windtunnel.quantities import duration
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
    from rich.console import RenderableType

    from windtunnel.programs.result import ReasonResult


def summary(result: ReasonResult) -> RenderableType:
    """Everything about a front, as something `rich` prints."""
    words, said = left_columns(result), headline(result)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", collapse_padding=True)
    table.add_column("")
    for at, title in enumerate(titles(result)):
        table.add_column(title, justify="left" if at < words else "right", overflow="fold")
    for point in result.points:
        mark = "★" if point == result.best else "●" if point.on_front else ""
        style = "" if point.on_front else "dim"
        table.add_row(mark, *row(result, point), style=style)
    parts: list[RenderableType] = [
        Text(result.scenario_name, style="bold"),
        Text(said[0].upper() + said[1:], style="bold cyan"),
        *(Text(line, style="cyan") for line in answer_lines(result)),
        *(Text(line, style="dim") for line in population_lines(result)),
        table,
        Text(LEGEND, style="dim"),
    ]
    if figures := best_lines(result):
        own = Table(title="The best candidate", title_justify="left", box=None, show_header=False, pad_edge=False)
        own.add_column(style="dim")
        own.add_column()
        for name, text in figures:
            own.add_row(name, text)
        parts += [Text(""), own, Text("")]
    for title, hint, heads, rows in answer_tables(result):
        own = Table(title=f"{title}: {hint}", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        for at, head in enumerate(heads):
            own.add_column(head, justify="left" if at < 2 else "right", overflow="fold")
        for cells in rows:
            own.add_row(*cells)
        parts.append(own)
    parts += [Text(f"! {line}", style="yellow") for line in warning_lines(result)]
    parts += [Text(f"assumed {field} {value}: {why}", style="dim") for field, value, why in assumed_rows(result)]
    parts.append(Padding(Text(f"done in {duration(result.simulated_in_s)}", style="dim"), (1, 0, 0, 0)))
    return Group(*parts)
