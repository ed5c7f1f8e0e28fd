"""Strategies of inference-time compute on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from windtunnel.report.quantities import assumed_text, duration
from windtunnel.report.reason.text import answer_tables, headline, population_lines, row, titles

if TYPE_CHECKING:
    from rich.console import RenderableType

    from windtunnel.programs.result import ReasonResult


def summary(result: ReasonResult) -> RenderableType:
    """Everything about a front, as something `rich` prints."""
    several = len({p.model for p in result.points}) > 1
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", collapse_padding=True)
    table.add_column("")
    for at, title in enumerate(titles(several_models=several)):
        table.add_column(title, justify="left" if at <= several else "right", overflow="fold")
    for point in result.points:
        mark = "★" if point == result.best else "●" if point.on_front else ""
        style = "" if point.on_front else "dim"
        table.add_row(mark, *row(point, several_models=several), style=style)
    parts: list[RenderableType] = [
        Text(result.scenario_name, style="bold"),
        Text(headline(result), style="bold cyan"),
        *(Text(line, style="dim") for line in population_lines(result)),
        table,
        Text("● no other candidate is as good in everything and better in something · ★ best", style="dim"),
    ]
    for title, hint, heads, rows in answer_tables(result):
        own = Table(title=f"{title}: {hint}", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        for at, head in enumerate(heads):
            own.add_column(head, justify="left" if at < 2 else "right", overflow="fold")
        for cells in rows:
            own.add_row(*cells)
        parts.append(own)
    parts += [Text(f"! {one['label']} on {one['model']}: {one['why']}", style="yellow") for one in result.refused]
    parts += [Text(f"! {p.label}: {note}", style="yellow") for p in result.points for note in p.notes]
    parts += [Text(f"! {warning}", style="yellow") for warning in result.warnings]
    parts += [Text(f"assumed {f} {assumed_text(f, v)}: {why}", style="dim") for f, v, why in result.assumed]
    parts.append(Padding(Text(f"done in {duration(result.simulated_in_s)}", style="dim"), (1, 0, 0, 0)))
    return Group(*parts)
