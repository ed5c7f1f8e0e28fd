"""One figure of a serving run, for notebooks. Plotly is imported when it is drawn; reports draw larger ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from windtunnel.serving.results.run_record import Record

_TONES = {"ttft": "#1565c0", "tpot": "#2e8b57", "e2e": "#5d4a8a"}
_POINTS = 200


def serving_figure(table: Mapping[str, npt.NDArray[Any]], record: Record | None, *, title: str) -> Any:
    """Draw the share of requests below each latency; requests running and waiting, and cache in use, over time.

    Args:
        table: columns by request; empty in a stored result.
        record: the run itself; None in a stored result.
        title: of the figure.

    Raises:
        ValueError: the result is stored, without its table of requests.
    """
    from plotly.subplots import make_subplots

    from windtunnel.serving.results.run_record import time_series

    if not table or record is None:
        raise ValueError("a stored result has no table of requests: run its scenario again")
    titles = ["TTFT, s", "TPOT, s", "E2E, s", "requests", "cache in use"]
    grid = [[{}, {}, {}], [{"colspan": 2}, None, {}]]
    figure = make_subplots(rows=2, cols=3, specs=grid, subplot_titles=titles)
    shares = np.linspace(0.0, 1.0, _POINTS)
    for column, (name, tone) in enumerate(_TONES.items(), 1):
        values = np.asarray(table[f"{name}_s"], np.float64)
        values = values[np.isfinite(values)]
        if len(values):
            figure.add_scatter(
                x=np.quantile(values, shares),
                y=shares,
                mode="lines",
                line={"color": tone},
                name=name.upper(),
                row=1,
                col=column,
            )
    series = time_series(record, _POINTS)
    middle = 0.5 * (series.edges_s[1:] + series.edges_s[:-1])
    for name, line, column in (
        ("running", series.running, 1),
        ("waiting", series.waiting, 1),
        ("cache", series.kv_usage, 3),
    ):
        figure.add_scatter(x=middle, y=line, mode="lines", name=name, row=2, col=column)
    figure.update_layout(title=title, height=560)
    return figure
