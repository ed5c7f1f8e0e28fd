"""Figures of a sweep of loads: latency and goodput against load, what users get against what devices give."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from windtunnel.charts.chart import Axis, Chart, Layer, Panels, layer
from windtunnel.charts.colours import BLUE, GREEN, GREY, MUTED, PAPER, RED
from windtunnel.charts.forms import dots, horizontal, line, number_ticks, time_axis, vertical
from windtunnel.quantities import three
from windtunnel.views.serve_words import short, slo_of

if TYPE_CHECKING:
    from windtunnel.serving.sweeps.load_sweep import Point, SweepResult

_LINES: tuple[tuple[str, float, dict[str, Any]], ...] = (
    ("p50", 2.5, {}),
    ("p90", 1.5, {"strokeDash": [6, 3]}),
    ("p99", 1.5, {"strokeDash": [2, 3]}),
)
_TITLES = {"rate": "offered load, requests/s", "concurrency": "requests in flight", "time_scale": "times the rate"}
_STAR: dict[str, Any] = {"shape": "diamond", "size": 200, "stroke": PAPER, "strokeWidth": 1.5}


def _hover(p: Point, unit: str) -> str:
    r = p.result
    return (
        f"{three(p.load)} {unit}\nTTFT {short(r.ttft_s.p50)}, p99 {short(r.ttft_s.p99)}\n"
        f"TPOT {short(r.tpot_s.p50)}, p99 {short(r.tpot_s.p99)}\n{three(r.throughput_requests_per_s)} requests/s done, "
        f"{100 * r.slo_attainment:.1f} % meet the objective"
    )


def _marked(result: SweepResult) -> list[Layer]:
    """Knee and saturation as lines over a chart."""
    layers: list[Layer] = []
    end = _right_end(result)
    if result.saturation is not None:
        layers.append(layer("rect", [{"x": result.saturation, "x2": end}], color=RED, opacity=0.08))
        near_end = result.saturation > (result.tried[0].load * end**3) ** 0.25
        layers += [_without_line(one) for one in vertical(result.saturation, "saturated", left=near_end, y=8)]
    if result.knee is not None:
        layers += vertical(result.knee.load, f"knee {three(result.knee.load)}", colour=BLUE, left=True, y=22)
    return layers


def _without_line(one: Layer) -> Layer:
    """The same without its line: a shaded range begins there."""
    return one if one.mark["type"] == "text" else replace(one, rows=())


def _loads(result: SweepResult, *, named: bool) -> Axis:
    """The axis of loads; only the lowest chart names it."""
    low, high = result.tried[0].load / 1.08, _right_end(result)
    ticks, words = number_ticks(low, high)
    title = f"{_TITLES[result.axis]}, log scale"
    return Axis(title=title, kind="log", low=low, high=high, ticks=ticks, words=words, labels=named)


def _right_end(result: SweepResult) -> float:
    """Where the axis ends: past what was asked for and what was found, not past every load that a search tried."""
    found = [p.load for p in result.points] + [v for v in (result.saturation, result.broken) if v is not None]
    return max(found) * 1.2


def _asked(x: list[float], y: list[float], points: list[Point], result: SweepResult, **looks: Any) -> Layer:
    """Dots where a load was asked for."""
    rows = [(a, b, _hover(p, result.unit)) for a, b, p in zip(x, y, points, strict=True) if p.asked and b == b]
    return dots([r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows], size=45, **looks)


def load_curve(result: SweepResult) -> Panels:
    """TTFT and TPOT percentiles against load."""
    inside = [p for p in result.tried if p.load <= _right_end(result)]
    x = [p.load for p in inside]
    slo = slo_of(result.best.result)
    charts = []
    for key, name, tone in (("ttft", "TTFT", BLUE), ("tpot", "TPOT", GREEN)):
        values: list[float] = []
        layers: list[Layer] = _marked(result)
        for quantile, width, dash in _LINES:
            y = [float(getattr(getattr(p.result, f"{key}_s"), quantile)) for p in inside]
            values += [v for v in y if v == v and v > 0]
            layers += line(x, y, colour=tone, strokeWidth=width, **dash)
            if quantile == "p50":
                layers.append(_asked(x, y, inside, result, colour=tone))
            first = [(a, b) for a, b in zip(x, y, strict=True) if b == b][:1]
            words = [{"x": a, "y": b, "text": quantile} for a, b in first]
            layers.append(layer("text", words, align="left", dx=3, dy=-7, color=tone, fontSize=11))
        low, high = min(values, default=1e-3), max(values, default=1.0)
        if key in slo:
            layers += horizontal(slo[key], f"objective {short(slo[key])}")
            low, high = min(low, slo[key]), max(high, slo[key])
        x_axis, y_axis = _loads(result, named=key == "tpot"), time_axis(name, low / 1.2, high * 1.5, room=52)
        charts.append(Chart(title=f"{name} against load", layers=tuple(layers), x=x_axis, y=y_axis, height=190))
    return Panels(tuple(charts))


def goodput_curve(result: SweepResult) -> Panels:
    """Requests done and requests that met the objective, a second, against load; their share below."""
    inside = [p for p in result.tried if p.load <= _right_end(result)]
    x = [p.load for p in inside]
    lines = [("done", [p.result.throughput_requests_per_s for p in inside], MUTED)]
    if result.objective:
        lines.append(("goodput", [p.result.goodput_requests_per_s for p in inside], GREEN))
    series = {name: tone for name, _, tone in lines}
    most = 1.15 * max(max(y) for _, y, _ in lines)
    upper: list[Layer] = _marked(result)
    if result.axis == "rate":
        upper += line(x, x, series="offered", strokeWidth=1, strokeDash=[2, 3], clip=True)
        series["offered"] = GREY
    for name, y, _ in lines:
        upper += [*line(x, y, series=name, strokeWidth=2.5), _asked(x, y, inside, result, series=name)]
    if result.objective:
        told = [f"best goodput: {_hover(result.best, result.unit)}"]
        best = result.best.result.goodput_requests_per_s
        upper.append(dots([result.best.load], [best], told, series="best goodput", **_STAR))
        series["best goodput"] = GREEN
        share, title = [100 * p.result.slo_attainment for p in inside], "requests that meet the objective, %"
    else:
        share, title = [100 * p.result.kv_cache_usage_max for p in inside], "cache in use at most, %"
    lower = [*_marked(result), *line(x, share, colour=GREEN), _asked(x, share, inside, result, colour=GREEN)]
    if result.objective:
        lower += horizontal(100 * slo_of(result.best.result)["percentile"])
    return Panels(
        (
            Chart(
                title="Requests done and goodput against load",
                layers=tuple(upper),
                x=_loads(result, named=False),
                y=Axis(title="requests/s", low=0.0, high=most, room=52),
                series=series,
                height=220,
            ),
            Chart(
                title=title,
                layers=tuple(lower),
                x=_loads(result, named=True),
                y=Axis(title=title, low=0.0, high=104.0, room=52),
                height=130,
            ),
        )
    )


def users_figure(result: SweepResult) -> Chart:
    """Tokens a second that one user sees against those that one device gives; along the line the load grows."""
    inside = [p for p in result.tried if p.load <= _right_end(result)]
    x = [p.result.output_tokens_per_s_per_user for p in inside]
    y = [p.result.output_tokens_per_s_per_device for p in inside]
    rows = [{"x": a, "y": b} for a, b in zip(x, y, strict=True) if a == a and b == b]
    layers = [layer("line", rows, {"order": {"value": 0}}, color=GREY, strokeWidth=2)]
    for saturated, tone in ((False, BLUE), (True, RED)):
        own = [(a, b, p) for a, b, p in zip(x, y, inside, strict=True) if p.result.saturated is saturated]
        layers.append(_asked([r[0] for r in own], [r[1] for r in own], [r[2] for r in own], result, colour=tone))
    if result.knee is not None:
        knee = result.knee.result
        at = {"x": knee.output_tokens_per_s_per_user, "y": knee.output_tokens_per_s_per_device}
        layers.append(dots([at["x"]], [at["y"]], [_hover(result.knee, result.unit)], colour=BLUE, **_STAR))
        words = [{**at, "text": f"knee {three(result.knee.load)}"}]
        layers.append(layer("text", words, align="right", dx=-11, dy=12, color=BLUE))
    return Chart(
        title="Tokens a second of a device against those of a user",
        layers=tuple(layers),
        x=Axis(title="output tokens/s of one user (1 / median TPOT)"),
        y=Axis(title="output tokens/s per device"),
        height=300,
    )
