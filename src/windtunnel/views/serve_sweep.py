"""What `windtunnel serve --sweep` shows: the largest load that holds, a table of all loads or values, curves."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from windtunnel.quantities import count, percent, seconds, three
from windtunnel.views import charts_serve_sweep as charts
from windtunnel.views import serve
from windtunnel.views.serve_words import deployment_line, limits_of, objective_text, short, slo_of, traffic_line
from windtunnel.views.view import Fact, Lines, Section, Text, Tone, View, Words, chart, pairs, plain, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from windtunnel.charts.chart import Chart, Panels
    from windtunnel.serving.results.serving_result import ServingResult
    from windtunnel.serving.sweeps.field_sweep import FieldSweep
    from windtunnel.serving.sweeps.load_sweep import Point, SweepResult

_TITLES = {"rate": "rate/s", "concurrency": "in flight", "time_scale": "scale"}


# -- loads -------------------------------------------------------------------------------------------------------------
def view(result: SweepResult, at: ServingResult | None = None) -> View:
    """Many loads.

    Args:
        result: of the sweep.
        at: the run at its knee (without one: at the best goodput), which pages show below the sweep.
    """
    full = (result.knee or result.best).result
    hint = "dots: loads of the sweep; between them, those that the search for the knee tried"
    curves: tuple[tuple[str, str, Callable[[SweepResult], Chart | Panels], str], ...] = (
        ("Latency against load", hint, charts.load_curve, "half"),
        ("Goodput against load", "requests a second", charts.goodput_curve, "half"),
        ("Users against devices", "load grows along the line", charts.users_figure, "full"),
    )
    drawn = [
        chart(title, partial(draw, result), words, size, beside=place == 1)
        for place, (title, words, draw, size) in enumerate(curves)
    ]
    own = View(
        title=result.scenario_name or "Sweep",
        aside=f"windtunnel {result.version}, {len(result.tried)} runs in {seconds(result.elapsed_s)}",
        lead=(deployment_line(full), traffic_line(full, load=False)),
        facts=tuple(_found(result)),
        sections=(_loads(result), *drawn),
        warnings=tuple(result.warnings),
    )
    return own if at is None else _with_run(own, result, serve.view(at))


def _with_run(own: View, result: SweepResult, run: View) -> View:
    """The sweep, and the run at its knee below it on pages."""
    name = "the knee" if result.knee is not None else "the best goodput"
    tiles = [(tile.name, tile.value, tile.unit, "\n".join(map(plain, tile.notes))) for tile in run.tiles]
    facts = [(fact.name, fact.value) for fact in run.facts]
    title = f"At {name}: {load_text(result, (result.knee or result.best).load)}"
    head = Section(title, (*([Lines((run.verdict,))] if run.verdict else []), pairs(tiles), pairs(facts)))
    below = (replace(one, pages_only=True) for one in (head, *run.sections))
    return replace(
        own,
        sections=(*own.sections, *below),
        warnings=tuple(dict.fromkeys((*own.warnings, *run.warnings))),
        assumed=run.assumed,
        citations=run.citations,
        origin=run.origin,
    )


def load_text(result: SweepResult, load: float) -> str:
    """A load with its unit: `5.33 requests/s`, `64 in flight`."""
    return f"{three(load)} {result.unit}"


def _found(result: SweepResult) -> Iterator[Fact]:
    """What the sweep found."""
    full = (result.knee or result.best).result
    asked = objective_text(slo_of(full))
    what = f"meets {asked}" if asked else "has a steady state"
    if result.knee is not None:
        beyond = "" if result.broken is None else f"; {load_text(result, result.broken)} does not"
        yield Fact("Knee", f"{load_text(result, result.knee.load)} is the largest load that {what}{beyond}")
    elif result.broken is not None:
        yield Fact("Knee", f"none: {load_text(result, result.broken)}, the smallest load tried, is too much ({what})")
    if result.saturation is not None:
        words = f"from {load_text(result, result.saturation)} on the queue grows without end"
        yield Fact("Saturated", Text(words, "bad"))
    if result.objective:
        rate = f"{three(result.best.result.goodput_requests_per_s)} requests/s"
        yield Fact("Best goodput", f"{rate} at {load_text(result, result.best.load)}")
    if result.knee is not None and full.bound_by:
        yield Fact("At the knee", "; ".join(limits_of(full.bound_by)))


def shown_points(result: SweepResult) -> list[tuple[Point, str]]:
    """Points of the table by load, with what is to know of each: the axis's own, the knee and the best goodput."""
    marks: dict[float, list[str]] = {}
    rows = {p.load: p for p in result.points}
    for point, mark in ((result.knee, "knee"), (result.best if result.objective else None, "best")):
        if point is not None:
            rows[point.load] = point
            marks.setdefault(point.load, []).append(mark)
    for load, point in rows.items():
        if point.result.saturated:
            marks.setdefault(load, []).append("saturated")
    return [(rows[load], ", ".join(marks.get(load, []))) for load in sorted(rows)]


def _loads(result: SweepResult) -> Section:
    met = ("met", "good/s") if result.objective else ()
    heads = [_TITLES[result.axis], "done/s", "tok/s/dev", "tok/s/user", "TTFT p50", "p90", "p99"]
    heads += ["TPOT p50", "p90", "p99", "E2E p50", "cache", "preempted", *met, ""]
    rows = []
    for point, mark in shown_points(result):
        r = point.result
        cells = [
            f"{point.load:,.3g}" if point.load < 1000 else f"{point.load:,.0f}",
            f"{r.throughput_requests_per_s:,.3g}",
            count(round(r.output_tokens_per_s_per_device)),
            f"{r.output_tokens_per_s_per_user:,.1f}",
            *(short(getattr(d, q)) for d in (r.ttft_s, r.tpot_s) for q in ("p50", "p90", "p99")),
            short(r.e2e_s.p50),
            percent(r.kv_cache_usage_max),
            f"{r.preemptions:,}",
            *((percent(r.slo_attainment, 0), f"{r.goodput_requests_per_s:,.3g}") if met else ()),
            mark,
        ]
        tone: Tone = "bad" if r.saturated else "accent" if "knee" in mark else ""
        rows.append([Text(cell, tone, strong="knee" in mark) for cell in cells])
    found = table(heads, rows, numeric=range(len(heads) - 1), drop=(12, 11, 10, 3, 8, 5, 1, *((14,) if met else ())))
    return Section("Loads", (found,))


# -- values of a field -------------------------------------------------------------------------------------------------
def field_view(sweep: FieldSweep) -> View:
    """Values of one field of the scenario, a row each."""
    lead: list[str] = []
    if (first := next((p.result for p in sweep.points if p.result is not None), None)) is not None:
        asked = objective_text(slo_of(first))
        lead = [deployment_line(first), traffic_line(first), *([f"objective: {asked}"] if asked else [])]
    heads: tuple[str, ...] = (sweep.field.rpartition(".")[2], "TTFT p50", "p99", "TPOT p50", "p99")
    heads += ("tokens/s a device", "a user", "cache", "in time", "goodput", "")
    rows: list[tuple[Words, ...]] = []
    for p in sweep.points:
        name, r = Text(p.value, strong=True), p.result
        if r is None:
            rows.append((name, *["–"] * 9, "cannot run"))
            continue
        rows.append(
            (
                name,
                *(short(getattr(d, q)) for d in (r.ttft_s, r.tpot_s) for q in ("p50", "p99")),
                f"{three(r.output_tokens_per_s_per_device)}",
                f"{three(r.output_tokens_per_s_per_user)}",
                percent(r.kv_cache_usage_max),
                percent(r.slo_attainment),
                f"{three(r.goodput_requests_per_s)}/s",
                "saturated" if r.saturated else "best" if p is sweep.best else "",
            )
        )
    refused = [Text(f"{p.value}: {p.reason}", "warn") for p in sweep.points if p.result is None]
    best = f"Highest goodput within the objective: {sweep.field} = {sweep.best.value}" if sweep.best else ""
    values = table(heads, rows, numeric=range(1, 10), drop=(7, 6, 4, 2))
    return View(
        title=sweep.scenario_name or "Sweep",
        aside=f"{len(sweep.points)} runs in {seconds(sweep.elapsed_s)}",
        lead=tuple(lead),
        verdict=Text(best, "good") if best else None,
        sections=(Section("Values", (values, Lines(tuple(refused)))),),
    )
