"""A sweep of loads in words and on the terminal: the table, the knee, where saturation begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from windtunnel.quantities import count, percent, seconds
from windtunnel.report.serving.text import deployment_line, objective_text, short, slo_of, traffic_line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from windtunnel.serving.sweeps.load_sweep import Point, SweepResult


def load_text(result: SweepResult, load: float) -> str:
    """A load with its unit: `5.33 requests/s`, `64 in flight`."""
    return f"{load:,.4g} {result.unit}"


def shown_points(result: SweepResult) -> list[tuple[Point, str]]:
    """Points of the table by load, with what is to be said of each: the axis's own, the knee and the best goodput."""
    rows = {p.load: p for p in result.points}
    marks: dict[float, list[str]] = {}
    if result.knee is not None:
        rows[result.knee.load] = result.knee
        marks.setdefault(result.knee.load, []).append("knee")
    if result.objective:
        rows[result.best.load] = result.best
        marks.setdefault(result.best.load, []).append("best")
    out = []
    for load in sorted(rows):
        words = marks.get(load, [])
        if rows[load].result.saturated:
            words = [*words, "saturated"]
        out.append((rows[load], ", ".join(words)))
    return out


def knee_words(result: SweepResult) -> list[tuple[str, str]]:
    """(title, sentence) of what the sweep found."""
    full = (result.knee or result.best).result
    asked = objective_text(slo_of(full))
    out = []
    what = f"meets {asked}" if asked else "has a steady state"
    if result.knee is not None:
        beyond = "" if result.broken is None else f"; {load_text(result, result.broken)} does not"
        out.append(("Knee", f"{load_text(result, result.knee.load)} is the largest load that {what}{beyond}"))
    elif result.broken is not None:
        out.append(("Knee", f"none: {load_text(result, result.broken)}, the smallest load tried, is too much ({what})"))
    if result.saturation is not None:
        out.append(("Saturated", f"from {load_text(result, result.saturation)} on the queue grows without end"))
    if result.objective:
        good = result.best
        rate = f"{good.result.goodput_requests_per_s:,.4g} requests/s"
        out.append(("Best goodput", f"{rate} at {load_text(result, good.load)}"))
    if result.knee is not None and full.bound_by:
        out.append(("At the knee", full.bound_by))
    return out


def summary(result: SweepResult) -> RenderableType:
    """Everything about a sweep, as something `rich` prints in 80 columns."""
    full = (result.knee or result.best).result
    head = Text(result.scenario_name, style="bold")
    head.append(f"   windtunnel {result.version}, {len(result.tried)} runs in {seconds(result.elapsed_s)}", style="dim")
    parts: list[RenderableType] = [head, Text(deployment_line(full)), Text(traffic_line(full, load=False)), Text()]
    parts += [_table(result), Text()]
    words = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    words.add_column(style="bold", no_wrap=True)
    words.add_column()
    for title, text in knee_words(result):
        words.add_row(title, Text(text, style="red" if title == "Saturated" else ""))
    parts.append(words)
    parts += [Text(f"warning: {line}", style="yellow") for line in result.warnings]
    return Group(*parts)


def _table(result: SweepResult) -> RenderableType:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    title = {"rate": "rate/s", "concurrency": "flight", "time_scale": "scale"}[result.axis]
    for name in (title, "done/s", "tok/s/dev", "TTFT p50", "p99", "TPOT p50", "p99"):
        table.add_column(name, justify="right", no_wrap=True)
    if result.objective:
        table.add_column("met", justify="right", no_wrap=True)
        table.add_column("good/s", justify="right", no_wrap=True)
    table.add_column("")
    for point, mark in shown_points(result):
        r = point.result
        cells = [
            f"{point.load:,.3g}" if point.load < 1000 else f"{point.load:,.0f}",
            f"{r.throughput_requests_per_s:,.3g}",
            count(round(r.output_tokens_per_s_per_device)),
            short(r.ttft_s.p50),
            short(r.ttft_s.p99),
            short(r.tpot_s.p50),
            short(r.tpot_s.p99),
        ]
        if result.objective:
            cells += [percent(r.slo_attainment, 0), f"{r.goodput_requests_per_s:,.3g}"]
        style = "red" if r.saturated else "bold cyan" if "knee" in mark else ""
        table.add_row(*cells, mark, style=style)
    return table
