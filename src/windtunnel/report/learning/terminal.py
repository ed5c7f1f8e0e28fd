"""Learning on the terminal: algorithms side by side, what the proxy cannot tell, and curves where asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from rich import box
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from windtunnel.learning.charts import ACROSS, Across, seed_band, shown
from windtunnel.quantities import assumed_text, duration
from windtunnel.report.learning.text import (
    goal_line,
    headline,
    law_lines,
    staleness_rows,
    table_rows,
    target_line,
    verdict_lines,
)

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

    from windtunnel.learning.results import LearningResult

_MARKS = "●○▲△■□◆◇"
_WIDE, _HIGH = 76, 18
_GAP = 3


def summary(result: LearningResult, *, plot: bool = False) -> RenderableType:
    """Everything about learned curves, as something `rich` prints."""
    parts: list[RenderableType] = [
        Text(result.scenario_name, style="bold"),
        Text(headline(result), style="bold cyan"),
        Text(target_line(result), style="dim"),
    ]
    if result.goal:
        parts.append(Text(f"target: {goal_line(result)}", style="dim"))
    parts.append(_SideBySide(*table_rows(result)))
    for label, words in staleness_rows(result):
        parts.append(Text(f"{label}: staleness {words}"))
    parts += [Text(line, style="yellow") for line in verdict_lines(result)]
    parts += [Text(line) for line in law_lines(result)]
    if plot:
        chosen = ACROSS[1] if shown(result, ACROSS[1]) else ACROSS[0]
        parts.append(Padding(Text(drawn(result, chosen)), (1, 0, 0, 0)))
    parts += [Text(f"! {warning}", style="yellow") for warning in result.warnings]
    parts += [Text(f"· {note}", style="dim") for note in result.notes]
    parts += [Text(f"assumed {f} {assumed_text(f, v)}: {why}", style="dim") for f, v, why in result.assumed]
    parts.append(Padding(Text(_speed(result), style="dim"), (1, 0, 0, 0)))
    return Group(*parts)


def _speed(result: LearningResult) -> str:
    rate = result.worker_steps_per_s
    learned = "all curves were kept from before" if rate is None else f"{rate:,.0f} worker-steps/s of a process"
    return f"{learned} · done in {duration(result.simulated_in_s)}"


@dataclass(frozen=True, slots=True)
class _SideBySide:
    """Algorithms with their figures; as several tables where the terminal is too narrow for one of whole words."""

    titles: list[str]
    rows: list[list[str]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Tables below each other, each with the algorithms in front."""
        cells = [[title, *column] for title, column in zip(self.titles, zip(*self.rows, strict=True), strict=True)]
        words = [max(len(word) for cell in column for word in cell.split() or [""]) for column in cells]
        groups: list[list[int]] = [[0]]
        for at in range(1, len(cells)):
            if len(groups[-1]) > 1 and sum(words[i] + _GAP for i in [*groups[-1], at]) > options.max_width:
                groups.append([0])
            groups[-1].append(at)
        for group in groups:
            spare = options.max_width - sum(words[i] + _GAP for i in group)
            table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
            widths = {}
            for at in [*group[1:], 0]:
                widths[at] = words[at] + max(0, min(spare, max(map(len, cells[at])) - words[at]))
                spare -= widths[at] - words[at]
            for at in group:
                table.add_column(
                    cells[at][0], justify="right" if at else "left", width=max(1, widths[at]), overflow="fold"
                )
            for row in self.rows:
                table.add_row(*(row[at] for at in group))
            yield table


def drawn(result: LearningResult, across: Across) -> str:
    """Mean loss of every algorithm against a quantity, in characters."""
    lines = []
    for at, figures in enumerate(result.algorithms):
        own = [c for c in result.curves if c.algorithm == figures.label]
        if own:
            x, mean, _, _ = seed_band(own, across)
            lines.append((_MARKS[at % len(_MARKS)], figures.label, x, mean))
    kept = [(x, y) for _, _, x, y in lines if len(x)]
    if not kept:
        return ""
    right = max(float(np.nanmax(x)) for x, _ in kept) or 1.0
    low, high = min(float(y.min()) for _, y in kept), max(float(y[0]) for _, y in kept)
    log = low > 0 and high / low > 10.0
    place = np.log if log else np.asarray
    bottom, top = float(place(low)), float(place(high))
    grid = [[" "] * _WIDE for _ in range(_HIGH)]
    for mark, _, x, y in lines:
        for a, b in zip(x, np.clip(y, low, high), strict=True):
            if np.isfinite(a):
                column = round(a / right * (_WIDE - 1))
                row = round((top - float(place(b))) / ((top - bottom) or 1.0) * (_HIGH - 1))
                grid[row][column] = mark
    names = "   ".join(f"{mark} {label}" for mark, label, _, _ in lines)
    ends = [f"{high:>9.4g} ┤", *["          │"] * (_HIGH - 2), f"{low:>9.4g} ┤"]
    body = [end + "".join(row).rstrip() for end, row in zip(ends, grid, strict=True)]
    foot = f"{'0':>11}{across.title.split(',')[0]:^{_WIDE - 12}}{right:>12.4g}"
    title = "loss" + (", log scale" if log else "")
    return "\n".join([f"{title}   {names}", *body, "          └" + "─" * _WIDE, foot])
