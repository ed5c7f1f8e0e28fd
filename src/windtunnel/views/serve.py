"""What `windtunnel serve` shows of one run: latencies, throughput, what bounds it, cache, memory and load over time."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from windtunnel.charts.colours import BLUE, IDLE, ORANGE, RED
from windtunnel.quantities import assumed_text, count, dollars, gib, percent, seconds, three
from windtunnel.serving.results.run_record import time_series
from windtunnel.training.results.colours import memory_colour
from windtunnel.views import charts_serve as charts
from windtunnel.views.serve_words import (
    SATURATED,
    deployment_line,
    drafts_text,
    grades_text,
    limit_text,
    limits_of,
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
from windtunnel.views.train import scenario_section
from windtunnel.views.view import (
    Drawing,
    Fact,
    Lines,
    Section,
    Text,
    Tile,
    View,
    Words,
    chart,
    dim,
    pairs,
    plain,
    sections,
    table,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from windtunnel.serving.results.metrics import Distribution
    from windtunnel.serving.results.run_record import TimeSeries
    from windtunnel.serving.results.serving_result import ServingResult

_MOST_INSTANCES = 64
_PLAN_WORDS = 6
_SLICES = 40
"""Slices of time of a small line."""
_TRIFLE = 0.5
"""Requests that wait on average, below which they are not drawn over time."""


def view(result: ServingResult) -> View:
    """One run."""
    series = None if result.record is None or result.duration_s <= 0 else time_series(result.record)
    return View(
        title=result.scenario_name or "Serving",
        aside=f"windtunnel {result.version}, simulated in {seconds(result.simulated_in_s)}",
        lead=(
            deployment_line(result),
            traffic_line(result),
            " · ".join(f"{name} {value}" for name, value in plan_chips(result)[:_PLAN_WORDS]),
        ),
        verdict=Text(SATURATED, "bad") if result.saturated else None,
        tiles=_tiles(result),
        facts=tuple(_facts(result)),
        sections=sections(
            _latencies(result),
            _pools(result),
            _tenants(result),
            Section("Scaling", (Lines((scaling_text(result.scaling),)),)) if result.scaling else None,
            *_over_time(result, series),
            _iterations(result),
            _requests(result),
            _engine_log(result),
            _memory(result),
            _instances(result, series),
            _limits(result),
            scenario_section(result.scenario, "Scenario"),
        ),
        warnings=result.warnings,
        assumed=tuple(
            (a["field"].removeprefix("serving."), assumed_text(a["field"], a["value"]), a["why"])
            for a in result.assumed
        ),
        citations=result.citations,
        origin=(
            f"windtunnel {result.version}",
            f"input hash {result.input_hash}",
            *(f"interval from {words}" for words in dict.fromkeys(str(b["basis"]) for b in result.intervals.values())),
        ),
    )


# -- first figures -----------------------------------------------------------------------------------------------------
def _tiles(result: ServingResult) -> tuple[Tile, ...]:
    slo, many = slo_of(result), "s" * (result.num_devices > 1)
    devices = f"{result.instances} instance{'s' * (result.instances > 1)} on {result.num_devices:,} device{many}"
    rate = f"{count(round(result.output_tokens_per_s))} output tokens/s"
    if band := result.intervals.get("output_tokens_per_s"):
        rate += f" (80 %: {band['low']:,.0f} to {band['high']:,.0f})"
    each = f"{result.output_tokens_per_s_per_device:,.0f} per device"
    users = f"{result.output_tokens_per_s_per_user:,.0f} per user"
    notes = (rate, f"{each}, {users}; {devices}", window_text(result))
    served = Text(f"{three(result.throughput_requests_per_s)}", path="throughput_requests_per_s")
    tiles = [_latency(result, slo, "TTFT", "ttft", result.ttft_s), _latency(result, slo, "TPOT", "tpot", result.tpot_s)]
    tiles.append(Tile("Throughput", served, tuple(note for note in notes if note), "requests/s"))
    if asked := objective_text(slo):
        verdict = Text(verdict_text(result), "good" if result.slo_met else "bad")
        good = Text(f"{three(result.goodput_requests_per_s)}", path="goodput_requests_per_s")
        tiles.append(Tile("Goodput", good, (asked, verdict), "requests/s"))
    else:
        tiles.append(_latency(result, slo, "E2E", "e2e", result.e2e_s))
    return tuple(tiles)


def _latency(result: ServingResult, slo: dict[str, float], name: str, key: str, d: Distribution) -> Tile:
    notes = [f"p90 {short(d.p90)}, p99 {short(d.p99)}"]
    if (band := result.intervals.get(f"{key}_s")) and d.mean > 0:
        low, high = (band[end] * d.p50 / d.mean for end in ("low", "high"))
        notes.append(f"80 % interval of the median {short(low)} to {short(high)}")
    value = Text(short(d.p50), "bad" if d.p50 > slo.get(key, np.inf) else "", path=f"{key}_s.p50")
    return Tile(name, value, tuple(notes), "median")


def _facts(result: ServingResult) -> Iterator[Fact]:
    if result.bound_by:
        yield Fact("Bound by", Text("\n".join(limits_of(result.bound_by)), path="bound_by"))
    if result.speculation:
        yield Fact("Drafts", drafts_text(result.speculation))
    if result.tasks:
        yield Fact("Tasks", tasks_text(result.tasks))
    lost = [(result.preemptions, "preempted"), (result.shed, "shed"), (result.rejected, "rejected")]
    batch = f"{result.running_mean:,.1f} requests run and {result.waiting_mean:,.1f} wait on average"
    yield Fact("Batch", "; ".join([batch, *(f"{number:,} {word}" for number, word in lost if number)]))
    yield from _load(result)
    used = f"{percent(result.kv_cache_usage_max)} at most in use, {percent(result.kv_cache_usage_mean)} on average"
    cache = [f"{result.capacity.get('tokens', 0):,} tokens an instance, {used}"]
    if result.prefix_hit_rate:
        cache.append(f"{percent(result.prefix_hit_rate)} of prompt tokens were found in it")
    yield Fact("Cache", "\n".join([*cache, *filter(None, [tiers_text(result.kv_tiers)])]))
    if sizes := _sizes(result):
        yield Fact("Memory", ", ".join(f"{name} {gib(size)}" for name, size in sizes))
    if power := _power(result.power):
        yield Fact("Power", power)
    if (cost := result.cost_per_million_output_tokens) is not None:
        yield Fact("Cost", f"{dollars(cost)} per million output tokens at list price")
    if result.grades:
        yield Fact("Confidence", grades_text(result.grades))


def _load(result: ServingResult) -> Iterator[Fact]:
    """Requests that run, and those that wait where a queue forms, over time."""
    if result.record is None or result.duration_s <= 0:
        return
    series = time_series(result.record, _SLICES)
    rows = [("running", series.running, BLUE)]
    if result.waiting_mean > _TRIFLE:
        rows.append(("waiting", series.waiting, RED if result.saturated else ORANGE))
    for at, (name, values, tone) in enumerate(rows):
        words = f"{name}, at most {values.max():,.0f}"
        yield Fact("" if at else "Load", Text(words, colour=tone, spark=tuple(values.tolist())))


def _sizes(result: ServingResult) -> list[tuple[str, float]]:
    """Memory of a device by what holds it, where the size of the cache is known."""
    if not result.capacity.get("cache_bytes"):
        return []
    sizes = [(n, float(result.capacity.get(f"{n}_bytes") or 0)) for n in ("weights", "cache", "activations", "other")]
    return [(name, size) for name, size in sizes if size]


def _power(power: dict[str, Any]) -> str:
    """Mean watts, those of each phase, and the energy of a million tokens."""
    if not power.get("mean_w_per_device"):
        return ""
    phases = (("prompts", "prompt_w"), ("decode steps", "decode_w"))
    known = ", ".join(f"{word} {power[key]:,.0f} W" for word, key in phases if power.get(key))
    out = f"{power['mean_w_per_device']:,.0f} W per device" + (f" ({known})" if known else "")
    each = power.get("energy_per_million_tokens_kwh")
    return out if each is None else f"{out}\n{each:,.3g} kWh per million output tokens"


# -- tables ------------------------------------------------------------------------------------------------------------
def _latencies(result: ServingResult) -> Section:
    """Percentiles of every measure, next to its objective and the interval of its mean."""
    slo = slo_of(result)
    known = [
        ("TTFT", "ttft", result.ttft_s),
        ("TPOT", "tpot", result.tpot_s),
        ("ITL", "itl", result.itl_s),
        ("E2E", "e2e", result.e2e_s),
        ("queued", "queue", result.queue_s),
    ]
    rows: list[tuple[Words, ...]] = []
    for name, key, d in known:
        band = result.intervals.get(f"{key}_s")
        cells = [short(v) for v in (d.mean, d.p50, d.p90, d.p99)]
        limit = short(slo[key]) if key in slo else ""
        rows.append(
            (
                name,
                *cells,
                Text(limit, "accent"),
                f"{short(band['low'])} to {short(band['high'])}" if band else "",
                *(short(v) for v in (d.p75, d.p95, d.max, d.std)),
                f"{d.count:,}",
            )
        )
    heads = ("", "mean", "p50", "p90", "p99", "objective", "80 % of the mean", "p75", "p95", "max", "std", "count")
    kept = [at for at in range(len(heads)) if at < 5 or any(plain(row[at]) for row in rows)]
    rows = [row for row, (_, _, d) in zip(rows, known, strict=True) if d.count]
    found = table(
        [heads[at] for at in kept],
        [[row[at] for at in kept] for row in rows],
        numeric=range(1, len(kept)),
        drop=range(-1, -6, -1),
    )
    drawn = [Drawing(partial(charts.latency_figure, result))] if result.table else []
    hint = "TPOT = (E2E − TTFT) / (output tokens − 1)"
    return Section("Latencies", (*drawn, found), hint)


def _pools(result: ServingResult) -> Section | None:
    if not result.pools:
        return None
    heads = ("pool", "devices", "cut", "busy", "running", "queue time p50", "p99", "cache at most", "tokens/s")
    rows: list[tuple[Words, ...]] = []
    for p in result.pools:
        watts, cost = p["power"].get("mean_w_per_device"), p["cost_per_million_output_tokens"]
        axes = " ".join(f"{axis} {size}" for axis, size in p["plan"].items())
        rows.append(
            (
                Text(p["name"], strong=True),
                f"{p['num_devices']} {p['device']}",
                f"{p['instances']} × {axes}",
                percent(p["busy_share"]),
                f"{p['running_mean']:,.1f}",
                short(p["queue_s"]["p50"]),
                short(p["queue_s"]["p99"]),
                percent(p["kv_cache_usage_max"]),
                f"{p['prompt_tokens_per_s'] + p['decode_tokens_per_s']:,.0f}",
                "–" if watts is None else f"{watts:,.0f}",
                "–" if cost is None else dollars(cost),
            )
        )
    found = table((*heads, "W/device", "cost"), rows, numeric=range(3, 11), drop=(2, 6, 9))
    moved = [dim(transfer_text(result.transfer))] if result.transfer else []
    return Section("Pools", (found, *moved), "cost per million output tokens of all pools; they add up")


def transfer_text(moved: dict[str, Any]) -> str:
    """What moving KV caches took."""
    wait, move = moved["waiting_for_blocks_s"], moved["moving_s"]
    return (
        f"{moved['requests']:,} KV caches moved: {short(wait['p50'])} until the decode instance had blocks, "
        f"{short(move['p50'])} to move (p99 {short(wait['p99'])} and {short(move['p99'])})"
    )


def _tenants(result: ServingResult) -> Section | None:
    if not result.tenants:
        return None
    shed = any(t["shed"] for t in result.tenants.values())
    heads = ["", "requests", "service/s", "TTFT p50", "TTFT p99", "E2E p50", "objective"] + ["shed"] * shed
    rows: list[tuple[Words, ...]] = [
        (
            Text(name, strong=True),
            f"{t['requests']:,}",
            count(t["service_per_s"]),
            short(t["ttft_s"]["p50"]),
            short(t["ttft_s"]["p99"]),
            short(t["e2e_s"]["p50"]),
            percent(t["slo_attainment"]),
            *([f"{t['shed']:,}"] if shed else []),
        )
        for name, t in result.tenants.items()
    ]
    found = table(heads, rows, numeric=range(1, len(heads)))
    words = [dim(fairness_text(result.fairness))] if result.fairness else []
    return Section("Tenants", (found, *words))


def fairness_text(fair: dict[str, float]) -> str:
    """Index and differences of service."""
    return (
        f"fairness: Jain's index {fair['jain_index']:.3f}; service difference within {fair['window_s']:g} s "
        f"{count(fair['service_difference_mean'])} weighted tokens on average, "
        f"{count(fair['service_difference_max'])} at most"
    )


def scaling_text(s: dict[str, Any]) -> str:
    """How many instances (or devices of growing ones) there were, and what was held."""
    what = "devices" if "devices_mean" in s else "instances"
    begun = f"{len(s['growths'])} growths of up to" if what == "devices" else f"{s['starts']} starts of"
    range_of = f"{s[f'{what}_min']} to {s[f'{what}_max']} serving"
    held = f"{begun} {short(s['start_up_s'])}; {s['device_hours']:.3g} device-hours"
    return f"{s[f'{what}_mean']:.3g} {what} on average, {range_of}; {held}"


# -- pages only --------------------------------------------------------------------------------------------------------
def _over_time(result: ServingResult, series: TimeSeries | None) -> tuple[Section, ...]:
    if series is None:
        return ()
    hint = f"means over slices of {seconds(float(series.edges_s[1] - series.edges_s[0]))}"
    return (
        chart("Load over time", partial(charts.load_figure, result, series), hint, "half"),
        chart("Tokens over time", partial(charts.tokens_figure, series), hint, "half", beside=True),
    )


def _iterations(result: ServingResult) -> Section | None:
    if not result.composition:
        return None
    hint = "at the run's mean batch; classes sum to the iteration"
    return chart("Where an iteration's time goes", partial(charts.composition_figure, result.composition), hint)


def _requests(result: ServingResult) -> Section | None:
    if not result.table:
        return None
    rows = len(charts.shown(np.asarray(result.table["ttft_s"], np.float64)))
    some = f"{rows:,} of {result.completed:,} requests, the slowest included"
    hint = some if rows < result.completed else "one dot a request"
    return chart("TTFT by arrival", partial(charts.requests_figure, result), hint, "broad")


def _memory(result: ServingResult) -> Section | None:
    sizes = _sizes(result)
    if not sizes:
        return None
    total = sum(size for _, size in sizes)
    tones = {"cache": "#2e8b57", "other": IDLE}
    rows = [
        (name, gib(size), Text(percent(size / total), share=size / total, colour=tones.get(name, memory_colour(name))))
        for name, size in sizes
    ]
    blocks = f"cache: {result.capacity.get('tokens', 0):,} tokens in {result.capacity.get('blocks', 0):,} blocks"
    basis = Lines((f"{blocks} an instance", *map(str, result.capacity.get("basis", ()))), marked=True)
    return Section("Memory of a device", (table(("", "", ""), rows, numeric=(1,)), basis), gib(total), pages_only=True)


def _engine_log(result: ServingResult) -> Section | None:
    words = result.engine_log.get("words")
    return Section("What your engine will log", (Lines(tuple(words), marked=True),)) if words else None


def _instances(result: ServingResult, series: TimeSeries | None) -> Section | None:
    record = result.record
    if series is None or record is None or result.instances < 2 or record.parts:
        return None
    columns = result.table
    lane = np.asarray(columns["instance"]) // max(record.lanes_of_instance, 1)
    width = np.diff(series.edges_s)
    rows = []
    for i in range(min(result.instances, _MOST_INSTANCES)):
        own = (lane == i) & np.asarray(columns["completed"], bool)
        if not own.any():
            continue
        running = float((series.running_by_instance[i] * width).sum() / width.sum())
        rows.append(
            (
                f"{i}",
                f"{int(own.sum()):,}",
                f"{running:,.1f}",
                percent(float(series.kv_usage_by_instance[i].max())),
                *(short(float(np.nanpercentile(columns["ttft_s"][own], p))) for p in (50, 99)),
                short(float(np.nanmedian(columns["tpot_s"][own]))),
            )
        )
    heads = ("instance", "requests", "running", "cache at most", "TTFT p50", "TTFT p99", "TPOT p50")
    hint = f"the first {_MOST_INSTANCES} of {result.instances}" if result.instances > _MOST_INSTANCES else ""
    return Section("Instances", (table(heads, rows, numeric=range(7)),), hint, pages_only=True)


def _limits(result: ServingResult) -> Section:
    rows = [
        (name.replace("_", " "), limit_text(value))
        for name, value in result.limits.items()
        if value is not None and value != ""
    ]
    return Section("Limits as resolved", (pairs(rows),), "of one instance", pages_only=True)
