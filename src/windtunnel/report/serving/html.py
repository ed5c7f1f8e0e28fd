"""A serving run as one HTML file: latencies, load and cache over time, requests, iterations, memory, assumptions."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from windtunnel.charts.colours import IDLE
from windtunnel.quantities import assumed_text, count, dollars, gib, percent, seconds
from windtunnel.report.html_shell import card, document, fill, plot, tile
from windtunnel.report.html_shell import table as html_table
from windtunnel.report.serving import pools, tenants_and_scaling
from windtunnel.report.serving.figures import (
    composition_figure,
    latency_figure,
    load_figure,
    requests_figure,
    shown,
    tokens_figure,
)
from windtunnel.report.serving.text import (
    SATURATED,
    deployment_line,
    device_rate,
    grades_text,
    limit_text,
    objective_text,
    plan_chips,
    short,
    slo_of,
    traffic_line,
    verdict_text,
    window_text,
)
from windtunnel.serving.results.run_record import time_series
from windtunnel.training.results.colours import memory_colour
from windtunnel.training.results.serialise import plain

if TYPE_CHECKING:
    from windtunnel.serving.results.metrics import Distribution
    from windtunnel.serving.results.run_record import TimeSeries
    from windtunnel.serving.results.serving_result import ServingResult

_MOST_INSTANCES = 64
_PLAIN_CHIPS = 9


def write(result: ServingResult, path: str | Path) -> Path:
    """Write the report and return its path."""
    target = Path(path)
    target.write_text(render(result), encoding="utf-8")
    return target


def render(result: ServingResult, *, before: tuple[str, ...] = ()) -> str:
    """The whole document. Every text that comes from the scenario is escaped.

    Args:
        result: of one run.
        before: HTML parts shown after the header.
    """
    series = None if result.record is None else time_series(result.record)
    body = [
        header(result),
        *before,
        saturation(result),
        tiles(result),
        _bound(result),
        warnings(result.warnings),
        card("Latencies", "share of requests below each time; dots: p50, p90, p99", plot(latency_figure(result))),
        pools.html(result),
        tenants_and_scaling.html(result),
        _over_time(result, series),
        _iterations(result),
        _requests(result),
        _percentiles(result),
        _memory(result),
        _instances(result, series),
        _assumed(result),
        _limits(result),
        _citations(result),
        _provenance(result),
    ]
    return document(result.scenario_name or "serving", body)


def header(result: ServingResult) -> str:
    """Name, workload and plan."""
    chips = "".join(
        f'<span class="chip">{escape(name)} <b>{escape(value)}</b></span>'
        for name, value in plan_chips(result)[:_PLAIN_CHIPS]
    )
    return (
        f"<header><h1>{escape(result.scenario_name or 'Serving')}</h1>"
        f'<p class="sub">{escape(deployment_line(result))}<br>{escape(traffic_line(result))}</p>'
        f'<div class="chips">{chips}</div></header>'
    )


def saturation(result: ServingResult) -> str:
    """A red card where no steady state exists."""
    return f'<div class="card stop"><b>{escape(SATURATED)}</b></div>' if result.saturated else ""


def _latency_tile(result: ServingResult, name: str, key: str, d: Distribution) -> str:
    slo = slo_of(result)
    band = result.intervals.get(f"{key}_s") or result.intervals.get(key)
    note = f"p90 {short(d.p90)}, p99 {short(d.p99)}, mean {short(d.mean)}"
    if band and d.mean > 0:
        low, high = (band[end] * d.p50 / d.mean for end in ("low", "high"))
        note += f"<br>80 % interval of the median {short(low)} to {short(high)}"
    return tile(name, f"{short(d.p50)}<small> median</small>", note, "bad" if d.p50 > slo.get(key, np.inf) else "")


def tiles(result: ServingResult) -> str:
    """The first figures."""
    slo, many = slo_of(result), "s" * (result.num_devices > 1)
    rate = (
        f"{count(result.output_tokens_per_s)} output tokens/s on {result.num_devices:,} device{many}<br>"
        f"{escape(device_rate(result))}"
    )
    if band := result.intervals.get("output_tokens_per_s"):
        rate += f"<br>80 % interval {band['low']:,.0f} to {band['high']:,.0f} tokens/s"
    if window := window_text(result):
        rate += f"<br>{escape(window)}"
    asked = objective_text(slo)
    if asked:
        good = tile(
            "Goodput",
            f"{result.goodput_requests_per_s:,.4g}<small> requests/s</small>",
            f"{escape(asked)}: <b>{escape(verdict_text(result))}</b>",
            "good" if result.slo_met else "bad",
        )
    else:
        d = result.e2e_s
        note = f"p90 {short(d.p90)}, p99 {short(d.p99)}<br>no objective is set"
        good = tile("E2E", f"{short(d.p50)}<small> median</small>", note)
    return (
        '<div class="tiles serving">'
        + _latency_tile(result, "TTFT", "ttft", result.ttft_s)
        + _latency_tile(result, "TPOT", "tpot", result.tpot_s)
        + tile("Throughput", f"{result.throughput_requests_per_s:,.4g}<small> requests/s</small>", rate)
        + good
        + "</div>"
    )


def _bound(result: ServingResult) -> str:
    if not result.bound_by:
        return ""
    parts = []
    if mean := result.power.get("mean_w_per_device"):
        parts.append(f"<b>{mean:,.0f} W</b> per device")
    if result.cost_per_million_output_tokens is not None:
        parts.append(f"<b>{dollars(result.cost_per_million_output_tokens)}</b> per million output tokens")
    aside = f'<span class="aside">{"; ".join(parts)}</span>' if parts else ""
    return f'<div class="card bound"><span><b>Bound by</b> {escape(result.bound_by)}</span>{aside}</div>'


def warnings(lines: tuple[str, ...]) -> str:
    """Warnings in one card."""
    if not lines:
        return ""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f'<div class="card warn"><b>Warnings</b><ul>{items}</ul></div>'


def _over_time(result: ServingResult, series: TimeSeries | None) -> str:
    if series is None:
        return ""
    width = seconds(float(series.edges_s[1] - series.edges_s[0]))
    load = card("Load over time", f"means over slices of {width}", plot(load_figure(result, series), "half"))
    tokens = card("Tokens over time", f"means over slices of {width}", plot(tokens_figure(series), "half"))
    return f'<div class="row pair">{load}{tokens}</div>'


def _iterations(result: ServingResult) -> str:
    if not result.composition:
        return ""
    hint = "at the run's mean batch; classes sum to the iteration"
    return card("Where an iteration's time goes", hint, plot(composition_figure(result.composition)))


def _requests(result: ServingResult) -> str:
    if not result.table:
        return ""
    rows = len(shown(np.asarray(result.table["ttft_s"], np.float64)))
    hint = "one dot a request"
    if rows < result.completed:
        hint = f"{rows:,} of {result.completed:,} requests, the slowest included"
    return card("TTFT by arrival", hint, plot(requests_figure(result), "broad"))


def _percentiles(result: ServingResult) -> str:
    rows = []
    for name, d in (
        ("TTFT", result.ttft_s),
        ("TPOT", result.tpot_s),
        ("ITL", result.itl_s),
        ("E2E", result.e2e_s),
        ("queue time", result.queue_s),
    ):
        if d.count:
            cells = (d.mean, d.std, d.p50, d.p75, d.p90, d.p95, d.p99, d.max)
            rows.append(
                f'<tr><td>{name}</td><td class="n">{d.count:,}</td>'
                + "".join(f'<td class="n">{seconds(v)}</td>' for v in cells)
                + "</tr>"
            )
    names = ("count", "mean", "std", "p50", "p75", "p90", "p95", "p99", "max")
    head = "<tr><th></th>" + "".join(f'<th class="n">{name}</th>' for name in names) + "</tr>"
    hint = "TPOT = (E2E − TTFT) / (output tokens − 1), as vLLM's bench; ITL: every gap between two tokens"
    return card("Percentiles", hint, html_table(head, "".join(rows)))


def _memory(result: ServingResult) -> str:
    capacity = result.capacity
    kinds = (
        ("weights", "weights_bytes"),
        ("cache", "cache_bytes"),
        ("activations", "activations_bytes"),
        ("other", "other_bytes"),
    )
    sizes = [(name, float(capacity[key])) for name, key in kinds if capacity.get(key)]
    if not sizes:
        return ""
    total = sum(size for _, size in sizes)
    bar = "".join(
        f'<i {fill(_memory_tone(name), 100 * size / total)} title="{name} {gib(size)}"></i>' for name, size in sizes
    )
    rows = "".join(
        f'<tr><td><span class="swatch" {fill(_memory_tone(name))}></span>{name}</td>'
        f'<td class="n">{gib(size)}</td><td class="n">{percent(size / total)}</td></tr>'
        for name, size in sizes
    )
    usage = (
        f"{capacity.get('tokens', 0):,} tokens in {capacity.get('blocks', 0):,} blocks an instance; "
        f"{percent(result.kv_cache_usage_max)} at most in use, {percent(result.kv_cache_usage_mean)} on average"
    )
    if result.prefix_hit_rate:
        usage += f"; {percent(result.prefix_hit_rate)} of prompt tokens were found in it"
    if result.preemptions:
        usage += f"; {result.preemptions:,} requests were preempted to make room"
    if result.rejected:
        usage += f"; {result.rejected:,} requests need more than there is and were rejected"
    basis = "".join(f"<li>{escape(str(line))}</li>" for line in capacity.get("basis", ()))
    content = (
        f'<div class="gauge tall">{bar}</div><table>{rows}</table><p class="sub">Cache: {usage}.</p><ul>{basis}</ul>'
    )
    return card("Memory of a device", f"{gib(total)}", content)


def _memory_tone(name: str) -> str:
    return {"cache": "#2e8b57", "other": IDLE}.get(name, memory_colour(name))


def _instances(result: ServingResult, series: TimeSeries | None) -> str:
    if series is None or result.instances < 2 or result.record is None:
        return ""
    table, record = result.table, result.record
    if record.parts:
        return ""
    lane = np.asarray(table["instance"]) // max(record.lanes_of_instance, 1)
    width = np.diff(series.edges_s)
    rows = []
    for i in range(min(result.instances, _MOST_INSTANCES)):
        own = (lane == i) & np.asarray(table["completed"], bool)
        if not own.any():
            continue
        running = float((series.running_by_instance[i] * width).sum() / width.sum())
        cells = (
            f"{i}",
            f"{int(own.sum()):,}",
            f"{running:,.1f}",
            percent(float(series.kv_usage_by_instance[i].max())),
            *(seconds(float(np.nanpercentile(table["ttft_s"][own], p))) for p in (50, 99)),
            seconds(float(np.nanmedian(table["tpot_s"][own]))),
        )
        rows.append("<tr>" + "".join(f'<td class="n">{cell}</td>' for cell in cells) + "</tr>")
    names = ("instance", "requests", "running", "cache at most", "TTFT p50", "TTFT p99", "TPOT p50")
    head = "<tr>" + "".join(f'<th class="n">{name}</th>' for name in names) + "</tr>"
    hint = "" if result.instances <= _MOST_INSTANCES else f"the first {_MOST_INSTANCES} of {result.instances}"
    content = html_table(head, "".join(rows))
    if len(rows) > 8:
        content = f"<details><summary>{len(rows)} instances</summary>{content}</details>"
    return card("Instances", hint, content)


def _assumed(result: ServingResult) -> str:
    if not result.assumed:
        return ""
    rows = "".join(
        f"<tr><td><code>{escape(a['field'])}</code></td><td>{escape(assumed_text(a['field'], a['value']))}</td>"
        f"<td>{escape(a['why'])}</td></tr>"
        for a in result.assumed
    )
    head = "<tr><th>field</th><th>value</th><th>why</th></tr>"
    return card("Assumed", "what the scenario leaves open", html_table(head, rows))


def _limits(result: ServingResult) -> str:
    items = "".join(
        f"<div><dt>{escape(name.replace('_', ' '))}</dt><dd>{escape(limit_text(value))}</dd></div>"
        for name, value in result.limits.items()
        if value is not None and value != ""
    )
    return card("Limits as resolved", "of one instance", f'<dl class="plan">{items}</dl>') if items else ""


def _citations(result: ServingResult) -> str:
    if not result.citations:
        return ""
    return card("Methods used", "", f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in result.citations)}</ul>")


def _provenance(result: ServingResult) -> str:
    import yaml

    scenario = yaml.safe_dump(plain(result.scenario), sort_keys=False, allow_unicode=True, default_flow_style=None)
    basis = dict.fromkeys(str(band["basis"]) for band in result.intervals.values())
    intervals = "".join(f"<br>interval: {escape(words)}" for words in basis)
    grades = f" · grades: {escape(grades_text(result.grades))}" if result.grades else ""
    return (
        f'<div class="card"><details><summary>Scenario</summary><pre>{escape(scenario)}</pre></details></div>'
        f"<footer>windtunnel <code>{escape(result.version)}</code> · "
        f"input hash <code>{escape(result.input_hash)}</code> · "
        f"{result.requests:,} requests simulated in {seconds(result.simulated_in_s)}{grades}{intervals}</footer>"
    )
