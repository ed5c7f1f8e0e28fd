"""What `windtunnel run` shows: days, where they go, checkpoints, and what would make the run shorter."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from windtunnel.quantities import assumed_text, count, dollars, duration, gib, percent, seconds, significant
from windtunnel.runs.charts import COLOURS, distribution, progress, waterfall
from windtunnel.views.view import Column, Section, Table, Text, Tile, View, chart, pairs, sections, table

if TYPE_CHECKING:
    from windtunnel.runs.results import RunResult

_LEAST = 5e-4
"""Share of the wall time below which a class has no line."""


def view(result: RunResult) -> View:
    """A whole run through failures, saves and restarts."""
    causes = sorted(result.failures_by_cause.items(), key=lambda item: -item[1])
    counted = table(("cause", "mean count"), [(name, f"{value:.1f}") for name, value in causes], numeric=(1,))
    heads = ("to", "mode", "every", "stops the steps", "can be loaded after", "load")
    ended = f"{result.replications} runs from one seed"
    return View(
        title=result.scenario_name or "Run",
        aside=f"{ended} · simulated in {result.simulated_in_s:.1f} s",
        lead=(Text(headline(result), "accent", strong=True),),
        tiles=tuple(Tile(name, value, (note,)) for name, value, note in figure_rows(result)),
        sections=sections(
            _classes(result),
            chart("What adds to the ideal days", partial(waterfall, result), "mean of all runs"),
            chart("Progress of one run", partial(progress, result), "stops go back to the copy that is loaded"),
            chart("Days of all runs", partial(distribution, result), ended),
            Section("Checkpoints", (table(heads, checkpoint_rows(result)),), checkpoint_line(result)),
            Section("Failures by cause", (counted,), f"profile {result.failure_profile}", pages_only=True),
            Section("What would change the days", (pairs(sensitivity_rows(result)),)),
            Section("How many spares", (pairs(spares_rows(result)),), "cost counts spares as long as the run takes")
            if len(result.spares_curve) > 1
            else None,
            _assumed_of_the_step(result),
        ),
        warnings=tuple(result.warnings),
        assumed=tuple((field, assumed_text(field, value), why) for field, value, why in assumed_rows(result)),
    )


def _classes(result: RunResult) -> Section:
    """Classes of time as shares of the run."""
    wall = sum(result.seconds.values())
    rows = tuple(
        (
            name.replace("_", " "),
            Text("", share=value / wall, colour=COLOURS[name]),
            duration(value),
            percent(value / wall),
        )
        for name, value in result.seconds.items()
        if value / wall >= _LEAST or name == "work"
    )
    columns = (Column(), Column(drop=1), Column(numeric=True), Column(numeric=True))
    return Section("Where the time goes", (Table(columns, rows),))


def _assumed_of_the_step(result: RunResult) -> Section:
    """What the step leaves open, which `train` says on the terminal."""
    rows = [(f, assumed_text(f, v), why) for f, v, why in result.assumed if not f.startswith("run.")]
    found = table(("field", "value", "why"), rows)
    return Section("Assumed of the step", (found,), pages_only=True)


def headline(result: RunResult) -> str:
    """Days and their spread, in hours below two days."""
    unit, name = time_unit(result.days["mean"])
    d = {key: value * 86400.0 / unit for key, value in result.days.items()}
    ends = ", ".join(f"{key.upper()} {significant(d[key])}" for key in ("p10", "p50", "p90"))
    return f"{significant(d['mean'])} {name} ({ends})"


def figure_rows(result: RunResult) -> list[tuple[str, str, str]]:
    """(name, value, note) of the figures at the top."""
    unit, name = time_unit(result.days["mean"])
    low, high = (result.interval[at] * 86400.0 for at in ("low", "high"))
    rows = [
        ("ideal", in_days(result.ideal_days), f"{count(result.steps)} steps of {seconds(result.step_time_s)}"),
        ("80 % interval", f"{significant(low / unit)} to {significant(high / unit)} {name}", _interval_of(result)),
        ("goodput", percent(result.goodput), "steps that count over wall time"),
        (
            "ETTR",
            percent(result.ettr["without_queueing"]),
            f"without queueing; steps run {percent(result.ettr['steps_running'])} of the time",
        ),
        (
            "ETTR, published",
            percent(result.ettr["rsc"]),
            f"RSC ({percent(result.ettr['rsc_without_queueing'])} without queue), Google goodput the same; "
            f"ByteRobust {percent(result.ettr['byterobust_cumulative'])}, worst hour "
            f"{percent(result.ettr['byterobust_sliding_least'])}",
        ),
        (
            "failures",
            f"{result.failures_mean:.0f}",
            f"{result.restarts_mean:.0f} restarts; profile {result.failure_profile}, {result.spares} spares",
        ),
    ]
    rows += _spot_rows(result)
    rows += _replan_rows(result)
    energy = f"{result.energy_kwh / 1e3:,.{0 if result.energy_kwh >= 1e5 else 1}f} MWh"
    if result.carbon_kg is not None:
        rows.append(("energy", energy, f"{result.carbon_kg / 1e3:,.{0 if result.carbon_kg >= 1e5 else 1}f} t CO₂"))
    else:
        rows.append(("energy", energy, "no grid stated (run.grid)"))
    if result.cost is not None:
        paid = "devices of the job and its spares" if result.spot is None else "spot devices as long as they are there"
        rows.append(("cost", money(result.cost), f"{result.currency}, {paid}"))
    return rows


def _interval_of(result: RunResult) -> str:
    """What the interval of the days holds."""
    if result.measured_step:
        return "of chance and rates of failures; the step time was measured"
    drawn = any(field == "run.failures" and "drawn" in value for field, value, _ in result.assumed)
    return f"of one run: step time, chance{' and rates of failures' if drawn else '; rates of failures as stated'}"


def _spot_rows(result: RunResult) -> list[tuple[str, str, str]]:
    """The spot fleet, and the same run on nodes that stay."""
    spot = result.spot
    if spot is None:
        return []
    held = f"of {spot['nodes_held']:.1f} nodes held; the job was stopped {spot['reclaims']:.0f} times"
    rows = [("nodes in the job", f"{spot['nodes_in_job']:.1f}", f"{held} and lost {spot['reclaimed_nodes']:.0f} nodes")]
    other = spot["on_demand"]
    if other["cost"] is None or result.cost is None:
        return [*rows, ("on demand", in_days(other["days"]), "the same run on nodes that stay")]
    price = f"at {dollars(other['price_per_device_hour'])} an hour, spot {dollars(spot['price_per_device_hour'])}"
    ratio = f"spot costs {percent(result.cost / other['cost'])} of it"
    return [*rows, ("on demand", f"{in_days(other['days'])}, {money(other['cost'])}", f"{price}; {ratio}")]


_SHOWN_PLANS = 3


def _replan_rows(result: RunResult) -> list[tuple[str, str, str]]:
    """Plans on fewer nodes, and the same run where whole replicas alone go and come."""
    rows = []
    if len(result.replans) > 1:
        told = [f"{r['nodes']} nodes {r['plan']}" for r in result.replans[1 : 1 + _SHOWN_PLANS]]
        more = f" and {len(result.replans) - 1 - len(told)} more" if len(result.replans) - 1 > len(told) else ""
        rows.append(("fewer nodes", "re-planned", f"from {'; from '.join(told)}{more}"))
    other = result.replicas_only
    if other is None:
        return rows
    by, cost = other["days_more"], "" if other["cost"] is None else f", {money(other['cost'])}"
    sure = "" if by["low"] > 0 or by["high"] < 0 else "; not resolved"
    ends = f"({_signed(by['low'])} to {_signed(by['high'])})".replace("-", "−")
    note = f"policy shrink, the plan stays: {_signed(by['mean']).replace('-', '−')} {ends}{sure}"
    return [*rows, ("replicas alone", f"{in_days(other['days'])}{cost}", note)]


def money(value: float) -> str:
    """Dollars, in millions where there are some."""
    return f"${significant(value / 1e6)} M" if value >= 1e6 else dollars(value)


def in_days(days: float) -> str:
    """Days, in hours below two."""
    return duration(days * 86400.0)


def time_unit(days: float) -> tuple[float, str]:
    """(seconds, name) of the unit for so many days: hours below two."""
    return (86400.0, "days") if days >= 2 else (3600.0, "hours")


def checkpoint_rows(result: RunResult) -> list[tuple[str, str, str, str, str, str]]:
    """Tiers: (to, mode, saves each, stops the steps, until it can be loaded, load)."""
    interval = result.checkpoint["interval_s"]
    rows: list[tuple[str, str, str, str, str, str]] = []
    for tier in result.checkpoint["tiers"]:
        lag: dict[str, Any] = tier
        rows.append(
            (
                lag["to"],
                lag["mode"],
                duration(interval * lag["every"]),
                duration(lag["block_s"]),
                duration(lag["block_s"] + lag["lag_s"]),
                duration(lag["load_s"]),
            )
        )
    return rows


def checkpoint_line(result: RunResult) -> str:
    """The interval next to the best one, and the bytes."""
    c = result.checkpoint
    line = f"saves every {c['interval_steps']} steps ({duration(c['interval_s'])}), {gib(c['bytes'])} each"
    if abs(c["interval_s"] / c["optimal_interval_s"] - 1.0) < 0.02:
        return f"{line}; the interval of the shortest expected run"
    return f"{line}; the shortest expected run saves every {duration(c['optimal_interval_s'])}"


def spares_rows(result: RunResult) -> list[tuple[str, str, str]]:
    """(spares, days, cost) of the curve; the cheapest and the run's own are marked."""
    priced = [p for p in result.spares_curve if p["cost"] is not None]
    cheapest = min(priced, key=lambda p: p["cost"])["spares"] if priced else None
    rows = []
    for point in result.spares_curve:
        marks = [
            word for word, at in (("the run's own", result.spares), ("cheapest", cheapest)) if at == point["spares"]
        ]
        cost = "" if point["cost"] is None else _fine(point["cost"])
        spares = "1 spare" if point["spares"] == 1 else f"{point['spares']} spares"
        rows.append((spares, in_days(point["days"]), " · ".join([cost, *marks]).strip(" ·")))
    return rows


def assumed_rows(result: RunResult) -> list[tuple[str, str, str]]:
    """(field, value, why) of what the run itself leaves open."""
    return [(field, value, why) for field, value, why in result.assumed if field.startswith("run.")]


def sensitivity_rows(result: RunResult) -> list[tuple[str, str]]:
    """(change, per cent with its 80 % interval, and days), largest gain first."""
    rows = sorted(result.sensitivities.items(), key=lambda item: item[1])
    return [(name, _changed(name, value, result).replace("-", "−")) for name, value in rows]


def _changed(name: str, value: float, result: RunResult) -> str:
    ends = result.sensitivity_intervals.get(name)
    spread = "" if ends is None else f" ({100 * ends[0]:+.2f} to {100 * ends[1]:+.2f})"
    return f"{100 * value:+.2f} %{spread} · {_signed(value * result.days['mean'])}"


def _signed(days: float) -> str:
    """A difference of days with its sign."""
    return ("+" if days >= 0 else "") + in_days(days)


def _fine(value: float) -> str:
    """Dollars with two digits behind millions: spares cost little."""
    return f"${significant(value / 1e6)} M" if value >= 1e6 else dollars(value)
