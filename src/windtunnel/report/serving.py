"""A serving prediction on the terminal: latencies, throughput, what fills the cache, what the answer rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from windtunnel.report.quantities import gib, percent, seconds

if TYPE_CHECKING:
    from rich.console import RenderableType

    from windtunnel.serving.metrics import Distribution
    from windtunnel.serving.results import ServingResult


def summary(result: ServingResult) -> RenderableType:
    """Everything about one run, as something `rich` prints."""
    head = Text(result.scenario_name, style="bold")
    head.append(
        f"   windtunnel {result.version}, {result.requests:,} requests simulated in {seconds(result.simulated_in_s)}",
        style="dim",
    )
    lines: list[RenderableType] = [head, Text()]
    if result.saturated:
        lines.append(
            Text(
                "Saturated: requests arrive faster than they are served. The line grows as long as they do; latencies "
                "below depend on the length of the run and are no steady state.",
                style="bold red",
            )
        )
        lines.append(Text())
    lines += [_latencies(result), Text(), _figures(result)]
    for warning in result.warnings:
        lines.append(Text(f"warning: {warning}", style="yellow"))
    return Group(*lines)


def _latencies(result: ServingResult) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("", "mean", "p50", "p90", "p99", "80 % interval of the mean"):
        table.add_column(name, justify="left" if not name else "right")
    rows: list[tuple[str, str, Distribution]] = [
        ("TTFT", "ttft", result.ttft_s), ("TPOT", "tpot", result.tpot_s), ("ITL", "itl", result.itl_s),
        ("E2E", "e2e", result.e2e_s), ("in line", "queue", result.queue_s),
    ]  # fmt: skip
    for name, key, d in rows:
        if not d.count:
            continue
        band = result.intervals.get(key)
        text = f"{seconds(band['low'])} to {seconds(band['high'])}" if band else ""
        table.add_row(name, seconds(d.mean), seconds(d.p50), seconds(d.p90), seconds(d.p99), text)
    return table


def _figures(result: ServingResult) -> RenderableType:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column()
    devices = f"{result.instances} instance{'s' * (result.instances > 1)} on {result.num_devices} devices"
    table.add_row(
        "Throughput",
        f"{result.throughput_requests_per_s:,.2f} requests/s, {result.output_tokens_per_s:,.0f} output tokens/s "
        f"({result.output_tokens_per_s_per_device:,.0f} per device, "
        f"{result.output_tokens_per_s_per_user:,.0f} per user)",
    )
    table.add_row("", devices)
    if result.slo_attainment < 1.0 or result.slo_met:
        table.add_row(
            "Objective",
            f"met by {percent(result.slo_attainment)} of requests, "
            f"goodput {result.goodput_requests_per_s:,.2f} requests/s",
        )
    capacity = result.capacity
    cache = f"{capacity.get('tokens', 0):,} tokens an instance, {percent(result.kv_cache_usage_max)} at most in use"
    if "cache_bytes" in capacity:
        cache += f" ({gib(capacity['cache_bytes'])} a device, weights {gib(capacity['weights_bytes'])})"
    table.add_row("Cache", cache)
    batch = f"{result.running_mean:,.1f} running, {result.waiting_mean:,.1f} waiting on average"
    if result.preemptions:
        batch += f"; {result.preemptions:,} preemptions"
    if result.rejected:
        batch += f"; {result.rejected:,} requests need more cache than there is"
    table.add_row("Batch", batch)
    if result.prefix_hit_rate:
        table.add_row("Prefix hits", percent(result.prefix_hit_rate))
    if result.power:
        table.add_row("Power", _power(result.power))
    if result.cost_per_million_output_tokens is not None:
        table.add_row("Cost", f"{result.cost_per_million_output_tokens:,.2f} per million output tokens")
    return table


def _power(power: dict[str, Any]) -> str:
    """Mean watts, those of each phase, and the energy of a million tokens."""
    phases = [("prompts", "prompt_w"), ("decode steps", "decode_w")]
    known = [f"{word} {power[key]:,.0f} W" for word, key in phases if power.get(key)]
    out = f"{power['mean_w_per_device']:,.0f} W per device"
    out += f" ({', '.join(known)})" if known else ""
    each = power.get("energy_per_million_tokens_kwh")
    return out if each is None else f"{out}, {each:,.3g} kWh per million output tokens"
