"""The search of a run's choices on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from windtunnel.report.run.search_text import HEAD, TITLES, cells, gain_line, headline, race_line, runner_up_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from windtunnel.runs.run_choice import RunChoice
    from windtunnel.runs.search import RunSearchResult

_VARIES = {"intervals": 1, "spares": 2, "tiers": 0}
"""Columns in which the choices of a curve differ; tiers come each with the interval that is best for them."""


def summary(result: RunSearchResult) -> RenderableType:
    """Everything about one search, as something `rich` prints."""
    parts: list[RenderableType] = [Text(result.scenario_name, style="bold"), Text(headline(result), style="bold cyan")]
    if not result.complete:
        parts.append(Text("Stopped: this is the best so far.", style="bold yellow"))
    parts += [Padding(Text(line), (0, 0, 0, 2)) for line in (gain_line(result), runner_up_line(result)) if line]
    if len(result.front) > 1:
        parts += [_title("None beats these in all that counts"), _table(result.front, result, range(len(HEAD)))]
    for name, title in TITLES.items():
        if len(result.curves[name]) > 1:
            columns = [_VARIES[name], *([1] if name == "tiers" else []), 3, 4, 7]
            parts += [_title(f"{title}, all else as in the best"), _table(result.curves[name], result, columns)]
    parts.append(Padding(Text(race_line(result), style="dim"), (1, 0, 0, 0)))
    parts.append(Text(f"simulated in {result.simulated_in_s:.1f} s", style="dim"))
    return Group(*parts)


def _title(text: str) -> RenderableType:
    return Padding(Text(text, style="bold"), (1, 0, 0, 0))


def _table(choices: Sequence[RunChoice], result: RunSearchResult, columns: Sequence[int]) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(HEAD[column], justify="left" if column == 0 else "right")
    for one in choices:
        row = cells(one, result)
        table.add_row(*(row[column] for column in columns), style="bold" if one.behind is None else "")
    return Padding(table, (0, 0, 0, 2), expand=False)
