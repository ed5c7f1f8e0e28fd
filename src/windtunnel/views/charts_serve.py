"""Figures of a serving run: latencies, load and tokens over time, requests, what an iteration is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.charts.chart import Axis, Chart, Layer, Panels, layer
from windtunnel.charts.colours import BLUE, GREEN, MUTED, ORANGE, PAPER, RED, SERIES, VIOLET
from windtunnel.charts.forms import Bar, Bars, area, dots, horizontal, line, shaded, time_axis, vertical
from windtunnel.quantities import seconds, three
from windtunnel.views.serve_words import short, slo_of

if TYPE_CHECKING:
    from windtunnel.serving.results.run_record import TimeSeries
    from windtunnel.serving.results.serving_result import ServingResult

TTFT, TPOT, E2E, RUNNING, WAITING, CACHE = BLUE, GREEN, VIOLET, "#2f6fb2", ORANGE, GREEN
_CLASSES = {
    "weights": "#1565c0",
    "matrix products": "#2f9e8f",
    "expert weights": "#5d4a8a",
    "expert products": "#8e7cc3",
    "cached keys and values": "#2e8b57",
    "attention of prompts": "#7cb342",
    "all-reduce": "#e8742c",
    "expert exchange": "#d81b7a",
    "pipeline hops": "#e0a100",
    "host": "#8d6e63",
    "sequences": "#bcaaa4",
    "kernel gaps": "#b0bec5",
    "launches": "#78909c",
    "head": "#0097a7",
    "element-wise": "#7fb3d5",
    "scan": "#26a69a",
}
"""Colours of classes of time (`serving.composition`)."""
_SHARES = ("p50", "p75", "p90", "p95", "p99")
_CURVE_POINTS, _DOTS, _SLICES, _FEW_INSTANCES = 120, 1000, 240, 8


def latency_figure(result: ServingResult) -> Panels:
    """Share of requests below each TTFT, TPOT and E2E, with the objective where there is one."""
    slo = slo_of(result)
    names = (("ttft", "TTFT", TTFT), ("tpot", "TPOT", TPOT), ("e2e", "E2E", E2E))
    columns = [
        (name, np.asarray(result.table[f"{key}_s"], np.float64), slo.get(key), tone) for key, name, tone in names
    ]
    return Panels(tuple(_distribution(*column) for column in columns), columns=3)


def _distribution(name: str, values: Floats, limit_s: float | None, tone: str) -> Chart:
    """Share of requests below each value of one measure."""
    shares = np.unique(np.concatenate([np.linspace(0, 1, _CURVE_POINTS), 1 - np.geomspace(1e-4, 0.05, 30)]))
    values = values[np.isfinite(values) & (values > 0)]
    y = Axis(title="share of requests, %", low=0.0, high=100.0)
    if not len(values):
        empty = Axis(title=f"{name} (no request has one)", low=0.0, high=1.0)
        return Chart(title=f"{name}: no request", layers=(layer("rule", [{"x": 0.0}], opacity=0),), x=empty, y=y)
    x = np.quantile(values, shares)
    layers: list[Layer] = line(x.tolist(), (100 * shares).tolist(), colour=tone, strokeWidth=2.5)
    marks = np.array([0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99])
    at = np.quantile(values, marks)
    told = [f"p{100 * p:.0f} {name} {seconds(v)}" for v, p in zip(at, marks, strict=True)]
    seen = np.isin(marks, [0.5, 0.9, 0.99])
    for shown, size, opacity in ((True, 60, 1.0), (False, 150, 0.0)):
        own = np.flatnonzero(seen == shown)
        looks: dict[str, Any] = {"size": size, "opacity": opacity, "stroke": PAPER, "strokeWidth": 1}
        words = [told[i] for i in own]
        layers.append(dots(at[own].tolist(), (100 * marks[own]).tolist(), words, colour=tone, **looks))
    low, high = float(x[0]), float(x[-1])
    if limit_s is not None:
        low, high = min(low, limit_s), max(high, limit_s)
    low, high = low / 1.12, max(high, low * 1.3) * 1.12
    if limit_s is not None:
        left = limit_s > (low * high) ** 0.5
        layers += vertical(limit_s, f"objective {short(limit_s)}", left=left, y=222)
    axis = time_axis(name, low, high)
    return Chart(title=f"Share of requests below each {name}", layers=tuple(layers), x=axis, y=y, height=240)


def load_figure(result: ServingResult, series: TimeSeries) -> Panels:
    """Requests running and waiting, and cache in use, over time; by instance where they are few."""
    columns = series.columns()
    t, unit = _clock(columns["time_s"])
    keep = _slices(len(t))
    at = t[keep].tolist()
    instances = len(series.running_by_instance)
    tone = RED if result.saturated else WAITING
    parts = (
        ("requests running", columns["running"], RUNNING, series.running_by_instance, 1.0, False),
        ("requests waiting", columns["waiting"], tone, series.waiting_by_instance, 1.0, True),
        ("cache in use, %", 100 * columns["kv_usage"], CACHE, series.kv_usage_by_instance, 100.0, True),
    )
    charts = []
    for row, (title, values, colour, each, factor, filled) in enumerate(parts):
        layers: list[Layer] = []
        names: dict[str, str] = {}
        if 1 < instances <= _FEW_INSTANCES:
            for i in range(instances):
                own = (factor * each[i])[keep].tolist()
                layers += line(at, own, series=f"instance {i}", strokeWidth=1, opacity=0.6)
                names[f"instance {i}"] = SERIES[i]
        elif instances > 1 and row != 1:
            most = (each if row == 2 else each * instances).max(axis=0) * factor
            name = "fullest instance" + ("" if row == 2 else f" × {instances}")
            layers += line(at, most[keep].tolist(), series=name, strokeWidth=1.2, strokeDash=[2, 3])
            names[name] = MUTED
        layers += _curve(at, values[keep].tolist(), f"{title}", colour, unit, filled=filled)
        names = ({"all": colour} | names) if names and row == 0 else {}
        if names:
            layers.append(layer("line", [{"x": at[0], "y": 0.0, "series": "all"}]))
        charts.append(_over_time(title, layers, unit if row == 2 else "", at, names, (130, 90, 90)[row]))
    return Panels(tuple(charts))


def tokens_figure(series: TimeSeries) -> Panels:
    """Prompt and output tokens a second, and arrivals, over time."""
    columns = series.columns()
    t, unit = _clock(columns["time_s"])
    keep = _slices(len(t))
    at = t[keep].tolist()
    rows = (
        ("output_tokens_per_s", "output tokens/s", TPOT, 130),
        ("prompt_tokens_per_s", "prompt tokens/s", TTFT, 90),
        ("arrivals_per_s", "arrivals, requests/s", MUTED, 90),
    )
    return Panels(
        tuple(
            _over_time(
                title,
                _curve(at, columns[key][keep].tolist(), title, tone, unit, filled=True),
                unit if key == "arrivals_per_s" else "",
                at,
                {},
                height,
            )
            for key, title, tone, height in rows
        )
    )


def _slices(n: int) -> Ints:
    """Slices of time that a curve shows."""
    return np.unique(np.linspace(0, n - 1, min(n, _SLICES)).astype(np.int64))


def _curve(x: list[float], y: list[float], title: str, colour: str, unit: str, *, filled: bool) -> list[Layer]:
    """One curve over time, with what it stands at."""
    told = [f"{title} {v:,.1f} at {three(t)} {unit}" for t, v in zip(x, y, strict=True)]
    layers = [area(x, y, colour=colour, opacity=0.22)] if filled else []
    return [*layers, *line(x, y, colour=colour, strokeWidth=1.7, told=told)]


def _over_time(
    title: str, layers: Sequence[Layer], unit: str, at: list[float], names: dict[str, str], height: int
) -> Chart:
    """One of several charts over one clock; only the lowest names it."""
    x = Axis(title=f"time, {unit}", low=at[0], high=at[-1], labels=bool(unit))
    return Chart(title=title, layers=tuple(layers), x=x, y=Axis(title=title, room=44), series=names, height=height)


def _clock(time_s: Floats) -> tuple[Floats, str]:
    """Times since the first arrival in a unit that suits, and its name."""
    t = time_s - time_s[0]
    for size, name in ((2 * 86400.0, "hours"), (3 * 3600.0, "hours"), (600.0, "minutes")):
        if t[-1] >= size:
            return t / (3600.0 if name == "hours" else 60.0), name
    return t, "seconds"


def shown(values: Floats, most: int = _DOTS) -> Ints:
    """Rows that a scatter shows: an even choice, and the largest values, so that no outlier is lost."""
    rows = np.flatnonzero(np.isfinite(values))
    if len(rows) <= most:
        return rows
    even = rows[np.linspace(0, len(rows) - 1, most - 200).astype(np.int64)]
    largest = rows[np.argpartition(values[rows], -200)[-200:]]
    return np.unique(np.concatenate([even, largest]))


def requests_figure(result: ServingResult) -> Chart:
    """Draw the TTFT of requests by arrival, coloured by the length of the prompt."""
    table = result.table
    ttft = np.asarray(table["ttft_s"], np.float64)
    rows = shown(ttft)
    rows = rows[ttft[rows] > 0]
    arrival = np.asarray(table["arrival_s"], np.float64)[rows]
    if not len(rows):
        return Chart(
            title="TTFT by arrival: no request", layers=(layer("rule", [{"x": 0.0}], opacity=0),), x=Axis(), y=Axis()
        )
    unit = _clock(np.array([arrival.min(), arrival.max()]))[1]
    x = (arrival - arrival.min()) / {"hours": 3600.0, "minutes": 60.0, "seconds": 1.0}[unit]
    values, prompts = ttft[rows], np.asarray(table["input_tokens"], np.float64)[rows]
    points = [
        {"x": round(float(a), 4), "y": float(f"{b:.4g}"), "prompt": max(float(c), 1.0), "told": told}
        for a, b, c, told in zip(x, values, prompts, _request_texts(table, rows), strict=True)
    ]
    varied = bool(prompts.max() > prompts.min())
    encoding = shaded("prompt", "prompt tokens", scheme="viridis", type="log", reverse=True) if varied else {}
    looks = {} if encoding else {"color": BLUE}
    layers = [layer("point", points, encoding, filled=True, size=26, opacity=0.75, **looks)]
    slo = slo_of(result)
    low, high = float(values.min()), float(values.max())
    if "ttft" in slo:
        layers += horizontal(slo["ttft"], f"objective {short(slo['ttft'])}")
        low, high = min(low, slo["ttft"]), max(high, slo["ttft"])
    return Chart(
        title="TTFT of each request by its arrival",
        layers=tuple(layers),
        x=Axis(title=f"arrival, {unit}", low=0.0, high=float(x.max()) * 1.01 or 1.0),
        y=time_axis("TTFT", low / 1.15, high * 1.2),
        height=280,
    )


def _request_texts(table: dict[str, Any], rows: Ints) -> list[str]:
    """Describe each drawn request for its hover text."""
    names = ("input_tokens", "output_tokens", "ttft_s", "queue_s", "e2e_s")
    columns = (np.asarray(table[name])[rows] for name in names)
    return [
        f"request {i:,}\nprompt {a:,} tokens, answer {b:,}\n"
        f"TTFT {seconds(x)}, queue time {seconds(w)}\nE2E {seconds(e)}"
        for i, a, b, x, w, e in zip(rows, *columns, strict=True)
    ]


def composition_figure(composition: dict[str, dict[str, float]], *, shares: bool = True) -> Chart:
    """What iterations are made of: one bar an iteration kind, by class.

    Args:
        composition: kind of iteration → class → seconds.
        shares: every bar is as long as the figure; else as long as its iteration takes.
    """
    bars, names = [], {}
    for kind, parts in composition.items():
        total, start = sum(parts.values()) or 1.0, 0.0
        whole = total / 100.0 if shares else 1e-3
        for name, value in parts.items():
            told = f"{kind}, {name}: {seconds(value)}, {100 * value / total:.1f} %"
            end = start + value / whole
            bars.append(Bar(name=kind, start=start, end=end, series=name, text=seconds(value), told=told))
            names[name] = _CLASSES.get(name, MUTED)
            start = end
    return Bars(
        title="What an iteration's time is made of",
        bars=tuple(bars),
        layers=(),
        inside=True,
        row=44,
        series=names,
        x=Axis(title="share of the time, %" if shares else "milliseconds", high=100.0 if shares else None),
        y=Axis(kind="band"),
    )


def latencies_of_both(a: dict[str, Any], b: dict[str, Any]) -> Panels:
    """Upper percentiles of TTFT, TPOT and E2E of two runs, plain results of `serve --json`."""
    charts = []
    for key, title in (("ttft_s", "TTFT"), ("tpot_s", "TPOT"), ("e2e_s", "E2E")):
        ends: list[float] = []
        layers: list[Layer] = []
        for name, result in (("A", a), ("B", b)):
            known = [(float(result[key][q]), float(q[1:])) for q in _SHARES if result.get(key, {}).get(q)]
            ends += [v for v, _ in known]
            told = [f"{name}: p{s:g} {title} {short(v)}" for v, s in known]
            x, y = [v for v, _ in known], [s for _, s in known]
            layers += line(x, y, series=name, told=told, dots=True, strokeWidth=2.5)
        low, high = min(ends, default=1e-3) / 1.15, max(ends, default=1.0) * 1.15
        shares = tuple(float(q[1:]) for q in _SHARES)
        charts.append(
            Chart(
                title=f"{title}, percentiles of requests",
                layers=tuple(layers),
                x=time_axis(title, low, high),
                y=Axis(title="percentile", low=47.0, high=101.0, ticks=shares, words=_SHARES),
                series={"A": "#e0862c", "B": "#1565c0"},
                height=220,
            )
        )
    return Panels(tuple(charts), columns=3)
