"""Run the examples of `windtunnel reason`, draw docs/img/reason-*.svg and print the tables of the guide.

Run from the repository root: `python scripts/draw_reasoning.py [NAME …]`, names as in examples/reasoning.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from windtunnel import api
from windtunnel.charts.chart import Chart
from windtunnel.programs.charts import ACROSS, break_even_chart, front_chart, load_chart
from windtunnel.programs.result import ReasonResult
from windtunnel.views.reason import answer_tables, row, titles

ROOT = Path(__file__).parents[1]
DRAWN: dict[str, Callable[[ReasonResult], Chart | None]] = {
    "best-of-n-or-a-bigger-model": lambda result: front_chart(result, ACROSS[0]),
    "what-is-a-verifier-worth": lambda result: front_chart(result, ACROSS[0]),
    "how-many-agents": load_chart,
    "which-plan-for-a-strategy": lambda result: front_chart(result, ACROSS[3]),
    "own-devices-or-an-api": break_even_chart,
}
"""Example → its picture."""


def draw(name: str, picture: Callable[[ReasonResult], Chart | None]) -> None:
    """Run an example, save its picture, print its tables as Markdown."""
    result = api.simulate_programs(ROOT / f"examples/reasoning/{name}.yaml")
    chart = picture(result)
    assert chart is not None
    chart.save(ROOT / f"docs/img/reason-{name}.svg", width=860)
    print(f"\n## {name}\n")
    _candidates(result)
    for title, hint, heads, rows in answer_tables(result):
        print(f"\n{title}: {hint}\n")
        _table(heads, rows)


def _candidates(result: ReasonResult) -> None:
    _table(titles(result), [row(result, p) for p in result.points])


def _table(heads: list[str], rows: list[list[str]]) -> None:
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for cells in rows:
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    for name in sys.argv[1:] or DRAWN:
        draw(name, DRAWN[name])
