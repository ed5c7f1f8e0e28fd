"""A search in the output cell of a notebook: what it found in a table, and its best plans as bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from windtunnel.charts.chart import Axis
from windtunnel.charts.forms import Bar, Bars
from windtunnel.charts.page import figures_table, in_notebook

_SHOWN = 8
"""Plans that the chart shows."""


def html(title: str, figures: Sequence[tuple[str, str]], bars: Sequence[tuple[str, float, str]], axis: str) -> str:
    """Table and figure as HTML.

    Args:
        title: of the search.
        figures: (name, figure with its unit).
        bars: (name, value, text next to the bar) of the best plans, best first.
        axis: what a bar's length is, with its unit.
    """
    names: list[str] = []
    drawn = []
    for name, value, text in bars[:_SHOWN]:
        names.append(name if name not in names else f"{name} ({names.count(name) + 1})")
        drawn.append(Bar(name=names[-1], end=value, text=text))
    chart = Bars(title=f"{title}: best plans", bars=tuple(drawn), layers=(), x=Axis(title=axis), y=Axis(kind="band"))
    return in_notebook(figures_table(title, figures) + (chart.html("notebook") if drawn else ""))


def differing(plans: Sequence[Mapping[str, Any]]) -> list[str]:
    """Each plan by the fields in which it is unlike another one of them."""
    names = dict.fromkeys(name for plan in plans for name in plan)
    unlike = [name for name in names if any(plan.get(name) != plans[0].get(name) for plan in plans)]
    shown = unlike or [name for name in ("tp", "pp", "dp") if name in names]
    return [" ".join(f"{name} {plan[name]}" for name in shown if plan.get(name) is not None) for plan in plans]
