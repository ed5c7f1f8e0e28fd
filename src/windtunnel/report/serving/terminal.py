"""A serving prediction on the terminal: latencies, throughput, what bounds it, memory, what the answer rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from windtunnel.quantities import assumed_text, count, dollars, gib, percent, seconds
from windtunnel.report.serving import pools, tenants_and_scaling
from windtunnel.report.serving.text import (
    SATURATED,
    deployment_line,
    drafts_text,
    grades_text,
    objective_text,
    plan_chips,
    short,
    slo_of,
    tasks_text,
    tiers_text,
    traffic_line,
    verdict_text,
    window_text,
)
from windtunnel.report.training.terminal import figure_grid

if TYPE_CHECKING:
    from rich.console import RenderableType

    from windtunnel.serving.results.metrics import Distribution
    from windtunnel.serving.results.serving_result import ServingResult

_BARS = "▁▂▃▄▅▆▇█"
_SLICES = 40
_PLAN_WORDS = 6
_TRIFLE = 0.5
"""Queued requests on average, below which the queue is not drawn."""


def summary(result: ServingResult) -> RenderableType:
    """Everything about one run, as something `rich` prints in 80 columns."""
    head = Text(result.scenario_name, style="bold")
    head.append(f"   windtunnel {result.version}, simulated in {seconds(result.simulated_in_s)}", style="dim")
    plan = " · ".join(f"{name} {value}" for name, value in plan_chips(result)[:_PLAN_WORDS])
    parts: list[RenderableType] = [head, *(Text(t) for t in (deployment_line(result), traffic_line(result), plan))]
    if result.saturated:
        parts += [Text(), Text(SATURATED, style="bold red")]
    parts += [Text(), _latencies(result), Text(), _figures(result)]
    if result.pools:
        moved = pools.transfer_text(result)
        parts += [Text(), pools.table(result), *([Text(moved, style="dim")] if moved else [])]
    parts += tenants_and_scaling.parts(result)
    if result.assumed:
        parts += [Text("\nAssumed", style="bold"), _assumed(result)]
    if result.warnings:
        parts.append(Text())
        parts += [Text(f"warning: {line}", style="yellow") for line in result.warnings]
    if result.citations:
        parts.append(Text("\nMethods used", style="bold"))
        parts += [Padding(Text(line, style="dim"), (0, 0, 0, 2)) for line in result.citations]
    return Group(*parts)


def _latencies(result: ServingResult) -> RenderableType:
    rows: list[tuple[str, str, Distribution]] = [
        ("TTFT", "ttft", result.ttft_s),
        ("TPOT", "tpot", result.tpot_s),
        ("ITL", "itl", result.itl_s),
        ("E2E", "e2e", result.e2e_s),
        ("queued", "queue", result.queue_s),
    ]
    slo = slo_of(result)
    bands = {key: result.intervals.get(key) or result.intervals.get(f"{key}_s") for _, key, _ in rows}
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("", style="bold", no_wrap=True)
    for name in ("mean", "p50", "p90", "p99"):
        table.add_column(name, justify="right", no_wrap=True)
    if any(name in slo for _, name, _ in rows):
        table.add_column("objective", justify="right", no_wrap=True)
    if any(bands.values()):
        table.add_column("80 % of the mean", no_wrap=True)
    for name, key, d in rows:
        if not d.count:
            continue
        cells = [Text(short(v)) for v in (d.mean, d.p50, d.p90, d.p99)]
        if any(n in slo for _, n, _ in rows):
            cells.append(Text(short(slo[key]) if key in slo else "", style="cyan"))
        if band := bands[key]:
            cells.append(Text(f"{short(band['low'])} to {short(band['high'])}"))
        table.add_row(name, *cells)
    return table


def _figures(result: ServingResult) -> RenderableType:
    grid = figure_grid()
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column()
    many = "s" * (result.num_devices > 1)
    devices = f"{result.instances} instance{'s' * (result.instances > 1)} on {result.num_devices:,} device{many}"
    tokens = count(round(result.output_tokens_per_s))
    rate = f"{result.throughput_requests_per_s:,.4g} requests/s, {tokens} output tokens/s"
    each = (
        f"{result.output_tokens_per_s_per_device:,.0f} per device, {result.output_tokens_per_s_per_user:,.0f} per user"
    )
    band = result.intervals.get("output_tokens_per_s")
    if band:
        rate += f" (80 %: {band['low']:,.0f} to {band['high']:,.0f})"
    window = f"\n{window}" if (window := window_text(result)) else ""
    grid.add_row("Throughput", f"{rate}\n{each}; {devices}{window}")
    asked = objective_text(slo_of(result))
    if asked:
        verdict = Text(verdict_text(result), style="green" if result.slo_met else "bold red")
        verdict.append(f"; goodput {result.goodput_requests_per_s:,.4g} requests/s", style="default not bold")
        grid.add_row("Objective", Group(Text(asked), verdict))
    if result.bound_by:
        grid.add_row("Bound by", Text("\n".join(result.bound_by.replace(". ", "; ").split("; "))))
    if result.speculation:
        grid.add_row("Drafts", drafts_text(result.speculation))
    if result.tasks:
        grid.add_row("Tasks", tasks_text(result.tasks))
    grid.add_row("Batch", _batch(result))
    for name, line in _sparks(result):
        grid.add_row(name, line)
    capacity = result.capacity
    cache = f"{capacity.get('tokens', 0):,} tokens an instance, {percent(result.kv_cache_usage_max)} at most in use"
    if result.prefix_hit_rate:
        cache += f"\n{percent(result.prefix_hit_rate)} of prompt tokens were found in it"
    if below := tiers_text(result.kv_tiers):
        cache += f"\n{below}"
    grid.add_row("Cache", cache)
    if capacity.get("cache_bytes"):
        sizes = ", ".join(
            f"{name} {gib(capacity[f'{name}_bytes'])}"
            for name in ("weights", "cache", "activations", "other")
            if capacity.get(f"{name}_bytes")
        )
        grid.add_row("Memory", sizes)
    if power := _power(result):
        grid.add_row("Power", power)
    if result.cost_per_million_output_tokens is not None:
        grid.add_row(
            "Cost", f"{dollars(result.cost_per_million_output_tokens)} per million output tokens at list price"
        )
    if result.grades:
        grid.add_row("Grades", grades_text(result.grades))
    return grid


def _batch(result: ServingResult) -> str:
    out = f"{result.running_mean:,.1f} requests run and {result.waiting_mean:,.1f} wait on average"
    if result.preemptions:
        out += f"; {result.preemptions:,} preempted"
    if result.shed:
        out += f"; {result.shed:,} shed"
    if result.rejected:
        out += f"; {result.rejected:,} rejected"
    return out


def _power(result: ServingResult) -> str:
    """Mean watts, those of each phase, and the energy of a million tokens."""
    power = result.power
    if not power.get("mean_w_per_device"):
        return ""
    phases = [("prompts", "prompt_w"), ("decode steps", "decode_w")]
    known = [f"{word} {power[key]:,.0f} W" for word, key in phases if power.get(key)]
    out = f"{power['mean_w_per_device']:,.0f} W per device"
    out += f" ({', '.join(known)})" if known else ""
    each = power.get("energy_per_million_tokens_kwh")
    return out if each is None else f"{out}\n{each:,.3g} kWh per million output tokens"


def _sparks(result: ServingResult) -> list[tuple[str, Text]]:
    """Draw the load over the run as rows of bars: requests that run, and requests that wait where a queue forms."""
    if result.record is None or result.duration_s <= 0:
        return []
    from windtunnel.serving.results.run_record import time_series

    series = time_series(result.record, _SLICES)
    rows = [("running", series.running, "blue")]
    if result.waiting_mean > _TRIFLE:
        rows.append(("waiting", series.waiting, "red" if result.saturated else "yellow"))
    out: list[tuple[str, Text]] = []
    for name, values, tone in rows:
        text = Text(spark(values), style=tone)
        text.append(f"  {name}, at most {values.max():,.0f}", style="dim not bold")
        out.append(("Load" if not out else "", text))
    return out


def spark(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> str:
    """Values as bars of eight heights, from zero to the largest.

    Example:
        >>> spark(np.array([0.0, 1.0, 4.0]))
        '▁▂█'
    """
    most = float(values.max(initial=0.0))
    if most <= 0:
        return _BARS[0] * len(values)
    return "".join(_BARS[min(int(v / most * 7.999), 7)] for v in values)


def _assumed(result: ServingResult) -> RenderableType:
    grid = figure_grid()
    grid.add_column(style="cyan", no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(style="dim")
    for a in result.assumed:
        grid.add_row(a["field"].removeprefix("serving."), assumed_text(a["field"], a["value"]), a["why"])
    return Padding(grid, (0, 0, 0, 2))
