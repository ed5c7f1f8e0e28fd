"""Figures that papers share: simulated lines beside published points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

COLOURS = ("#1f6f8b", "#c0562b", "#5b8c2a", "#7a4fa3", "#b08c1a", "#4a4a4a")

Points = Sequence[tuple[float, float, float]]
"""(x, published, simulated); a published value of NaN shows no point."""


def beside(panels: Mapping[str, Mapping[str, Points]], x: str, y: str, *, log_x: bool = False) -> Any:
    """One panel next to the other, in each a simulated line and published points of every series.

    Args:
        panels: title → series → points.
        x: title of the horizontal axes.
        y: title of the vertical axis.
        log_x: equal factors evenly spaced.
    """
    from plotly.subplots import make_subplots

    figure = make_subplots(1, len(panels), shared_yaxes=True, subplot_titles=list(panels))
    names = list(dict.fromkeys(name for series in panels.values() for name in series))
    for column, series in enumerate(panels.values(), 1):
        for name, points in series.items():
            colour = COLOURS[names.index(name) % len(COLOURS)]
            first = next(i for i, own in enumerate(panels.values(), 1) if name in own) == column
            at = [point[0] for point in points]
            for kind, values, how in (
                ("simulated", [p[2] for p in points], {"mode": "lines", "line": {"color": colour}}),
                ("published", [p[1] for p in points], {"mode": "markers", "marker": {"color": colour}}),
            ):  # fmt: skip
                figure.add_scatter(
                    x=at, y=values, name=f"{name}, {kind}", legendgroup=name, showlegend=first, row=1, col=column, **how
                )
        figure.update_xaxes(title=x, type="log" if log_x else "linear", row=1, col=column)
    figure.update_yaxes(title=y, row=1, col=1)
    figure.update_layout(template="plotly_white", height=420, margin={"l": 60, "r": 20, "t": 40, "b": 50})
    return figure
