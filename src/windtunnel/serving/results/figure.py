"""One figure of a serving run, for notebooks; reports draw larger ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from windtunnel.charts.chart import Axis, Chart, Panels
from windtunnel.charts.colours import BLUE, GREEN, ORANGE, VIOLET
from windtunnel.charts.forms import line

if TYPE_CHECKING:
    import numpy.typing as npt

    from windtunnel.serving.results.run_record import Record

_TONES = {"ttft": BLUE, "tpot": GREEN, "e2e": VIOLET}
_POINTS = 120


def serving_figure(table: Mapping[str, npt.NDArray[Any]], record: Record | None, *, title: str) -> Panels:
    """Draw the share of requests below each latency; requests running and waiting, and cache in use, over time.

    Args:
        table: columns by request; empty in a stored result.
        record: the run itself; None in a stored result.
        title: of the figure.

    Raises:
        ValueError: the result is stored, without its table of requests.
    """
    from windtunnel.serving.results.run_record import time_series

    if not table or record is None:
        raise ValueError("a stored result has no table of requests: run its scenario again")
    charts = [_distribution(name.upper(), table[f"{name}_s"], tone) for name, tone in _TONES.items()]
    series = time_series(record, _POINTS)
    middle = (0.5 * (series.edges_s[1:] + series.edges_s[:-1])).tolist()
    names = {"running": BLUE, "waiting": ORANGE}
    drawn = {"running": series.running.tolist(), "waiting": series.waiting.tolist()}
    layers = [one for name, values in drawn.items() for one in line(middle, values, series=name)]
    x, y = Axis(title="seconds", from_zero=False), Axis(title="requests")
    charts.append(Chart(title=f"{title}: requests over time", layers=tuple(layers), x=x, y=y, series=names, height=180))
    usage = tuple(line(middle, (100 * series.kv_usage).tolist(), colour=GREEN))
    y = Axis(title="cache in use, %", low=0.0, high=100.0)
    charts.append(Chart(title=f"{title}: cache over time", layers=usage, x=x, y=y, height=180))
    return Panels(tuple(charts), columns=3)


def _distribution(name: str, column: npt.NDArray[Any], tone: str) -> Chart:
    """Share of requests below each value of one measure."""
    values = np.asarray(column, np.float64)
    values = values[np.isfinite(values)]
    shares = np.linspace(0.0, 1.0, _POINTS)
    x = np.quantile(values, shares).tolist() if len(values) else []
    told = [f"{100 * p:.0f} % of requests: {name} up to {v:.4g} s" for v, p in zip(x, shares, strict=False)]
    layers = tuple(line(x, (100 * shares[: len(x)]).tolist(), colour=tone, told=told))
    y = Axis(title="share of requests, %", low=0.0, high=100.0)
    return Chart(
        title=f"Share of requests below each {name}", layers=layers, x=Axis(title=f"{name}, s"), y=y, height=180
    )
