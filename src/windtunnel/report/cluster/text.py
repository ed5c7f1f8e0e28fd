"""Lines that the terminal and the page share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.progress import duration
from windtunnel.report.quantities import dollars, percent

if TYPE_CHECKING:
    from windtunnel.clusters.fleets import FleetCourse
    from windtunnel.clusters.metrics import Spread
    from windtunnel.clusters.power_course import PowerCourse
    from windtunnel.clusters.result import ClusterResult, PodResult


def spread_text(spread: Spread) -> str:
    """Mean and quantiles."""
    named = (("mean", spread.mean), ("p50", spread.p50), ("p90", spread.p90), ("p99", spread.p99))
    return ", ".join(f"{name} {duration(value)}" for name, value in named)


def figures(result: ClusterResult) -> list[tuple[str, str]]:
    """Names and values, what matters first."""
    rows = [
        ("completion time", spread_text(result.jct_s)),
        ("time in the queue", spread_text(result.queue_s)),
        ("makespan", duration(result.makespan_s)),
        ("utilisation", f"{percent(result.utilisation)} of {result.room.devices:,} devices"),
        ("idle while jobs wait", f"{percent(result.fragmentation)} of devices"),
        (
            "finish-time fairness",
            f"mean {result.fairness_mean:.3g}, worst {result.fairness_worst:.3g} (above 1: later than on an own share)",
        ),
        ("preemptions", f"{result.preemptions:,}"),
    ]
    if result.outage_kills:
        rows.append(("stopped by failures", f"{result.outage_kills:,}"))
    rows.append(("device time of jobs", device_time(result)))
    for one in result.serving:
        _, replica, count, unmet, held = fleet_cells(one)
        rows.append((one.fleet.name, f"{count}; {replica}; {unmet}; {held}"))
    if result.deadlines_met is not None:
        rows.append(("deadlines met", percent(result.deadlines_met)))
    if result.power_w is not None and result.energy_kwh is not None:
        power = result.power_w
        watts = (
            f"mean {power['mean'] / 1e3:,.3g} kW, p99 {power['p99'] / 1e3:,.3g} kW, peak {power['peak'] / 1e3:,.3g} kW"
        )
        rows += [("power", watts), ("energy", f"{result.energy_kwh:,.4g} kWh")]
    if result.feeds is not None:
        rows += feed_rows(result.feeds)
    if result.carbon_kg is not None:
        rows.append(("carbon", f"{result.carbon_kg:,.4g} kg CO₂"))
    if result.cost is not None:
        rows.append(("cost", f"{dollars(result.cost)} for all devices over the makespan"))
    return rows


def feed_rows(feeds: PowerCourse) -> list[tuple[str, str]]:
    """What feeds carried, and what their caps took."""
    worst = max(feeds.rows, key=lambda row: row.peak_w / row.limit_w)
    count = f"{len(feeds.rows)} rows of" if len(feeds.rows) > 1 else "one of"
    carried = f"{count} {worst.limit_w / 1e3:,.3g} kW; peak {percent(worst.peak_w / worst.limit_w)} of the limit"
    locks = f"locked for {duration(feeds.seconds_capped)}, {feeds.brakes:,} brakes"
    told = ((name, own) for name, own in (("low", feeds.low), ("high", feeds.high)) if own.jobs)
    slowed = [f"{own.jobs:,} jobs of {name} priority {percent(own.slowdown - 1.0)} slower" for name, own in told]
    return [("feeds", carried), ("locked clocks", "; ".join([locks, *slowed]))]


def fleet_cells(one: FleetCourse) -> tuple[str, str, str, str, str]:
    """Of a fleet: name, what a replica is, how many answered, what they could not, devices, energy and money."""
    own, requests = one.fleet.replica, one.requests
    unmet = float(one.unmet.sum())
    share = f"{unmet:,.0f} of {requests:,.0f} requests unmet ({percent(unmet / requests)})" if requests else "no load"
    held = [f"{one.device_hours:,.4g} device-hours"]
    held += [] if one.energy_kwh is None else [f"{one.energy_kwh:,.4g} kWh"]
    held += [] if one.cost is None else [dollars(one.cost)]
    return (
        one.fleet.name,
        f"{own.rate_per_s:.3g} requests/s ({own.low_per_s:.3g} to {own.high_per_s:.3g}) on {own.devices} devices",
        f"{int(one.wanted.min())} to {int(one.wanted.max())} replicas",
        share,
        ", ".join(held),
    )


def device_time(result: ClusterResult) -> str:
    """How much of what jobs held got them on, and what the rest went to."""
    lost = result.lost
    named = (
        ("undone by failures", lost.failures),
        ("given way to restarts", lost.restarts),
        ("given way to others", lost.preemptions),
        ("first starts", lost.starts),
        ("locked clocks", lost.capped),
        ("more or other devices than stated", lost.scaling),
        ("standing or slow", lost.standing),
    )
    told = [f"{name} {percent(hours / lost.held)}" for name, hours in named if hours > 5e-4 * lost.held]
    return ", ".join([f"{percent(lost.useful / lost.held)} useful", *told])


def headline(result: ClusterResult) -> str:
    """What ran where."""
    return f"{result.jobs:,} jobs on {result.room.name}, {result.policy}, {result.placement} placement"


def pod_figures(result: PodResult) -> list[tuple[str, str]]:
    """Names and values of pods that were placed."""
    rows = [
        (f"allocated at load {point['arrived_load']:.0%}", percent(point["share"])) for point in result.allocated_share
    ]
    idle = f"{percent(result.fragmentation)} of idle GPUs, for typical pods"
    return [*rows, ("unusable at the end", idle), ("pods without a node", f"{result.refused:,}")]


def pod_headline(result: PodResult) -> str:
    """What was placed where."""
    return f"{result.jobs:,} pods on {result.nodes:,} nodes with {result.devices:,} GPUs, {result.policy}"
