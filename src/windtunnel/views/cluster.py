"""What `windtunnel cluster` shows: completion times, queues, use of the devices, power, jobs over time."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from windtunnel.clusters.result import PodResult
from windtunnel.progress import duration
from windtunnel.quantities import dollars, percent, seconds, three
from windtunnel.views import charts_cluster as charts
from windtunnel.views.view import Drawing, Fact, Section, Tile, View, chart, sections, table

if TYPE_CHECKING:
    from windtunnel.clusters.fleets import FleetCourse
    from windtunnel.clusters.metrics import Spread
    from windtunnel.clusters.power_course import PowerCourse
    from windtunnel.clusters.result import ClusterResult


def view(result: ClusterResult | PodResult) -> View:
    """Of jobs that share a cluster, or of pods that were placed on its nodes."""
    if isinstance(result, PodResult):
        return _pods(result)
    fleets = [fleet_cells(one) for one in result.serving]
    drawn = [] if not fleets else [Drawing(partial(charts.replicas, result))]
    heads = ("fleet", "a replica", "Replicas by hour", "unmet", "device time")
    running = "bars: running; thin lines: submitted, not running"
    running += "; above the jobs, replicas of fleets" if fleets else ""
    return View(
        title=result.scenario_name or "Jobs",
        aside=f"{result.events:,} events in {seconds(result.simulated_in_s)}",
        lead=(f"{result.jobs:,} jobs on {result.room.name}, {result.policy}, {result.placement} placement",),
        tiles=_tiles(result),
        facts=_facts(result),
        sections=sections(
            Section(
                "Serving",
                (*drawn, table(heads, fleets)),
                "unmet: requests beyond what the replicas that answer sustain",
            ),
            chart("Load", partial(charts.load, result), "busy devices, waiting jobs and watts over time"),
            chart("Jobs over time", partial(charts.gantt, result), running),
            chart("Completion times", partial(charts.completion, result), "from submission to end"),
        ),
        warnings=result.warnings,
        assumed=result.assumed,
    )


def _tiles(result: ClusterResult) -> tuple[Tile, ...]:
    idle = f"{percent(result.fragmentation)} of devices idle while jobs wait"
    return (
        Tile("Completion time", duration(result.jct_s.mean), (quantiles(result.jct_s),), "mean"),
        Tile("Time in the queue", duration(result.queue_s.mean), (quantiles(result.queue_s),), "mean"),
        Tile("Makespan", duration(result.makespan_s), (f"{result.preemptions:,} preemptions",)),
        Tile("Utilisation", percent(result.utilisation), (f"of {result.room.devices:,} devices; {idle}",)),
    )


def quantiles(spread: Spread) -> str:
    """Median and tail of a time."""
    return ", ".join(
        f"{name} {duration(value)}" for name, value in (("p50", spread.p50), ("p90", spread.p90), ("p99", spread.p99))
    )


def _facts(result: ClusterResult) -> tuple[Fact, ...]:
    """The other figures, what matters first."""
    fairness = f"mean {result.fairness_mean:.3g}, worst {result.fairness_worst:.3g}"
    rows = [Fact("Finish-time fairness", f"{fairness} (above 1: later than on an own share)")]
    if result.outage_kills:
        rows.append(Fact("Stopped by failures", f"{result.outage_kills:,}"))
    rows.append(Fact("Device time of jobs", device_time(result)))
    if result.deadlines_met is not None:
        rows.append(Fact("Deadlines met", percent(result.deadlines_met)))
    if result.power_w is not None and result.energy_kwh is not None:
        watts = ", ".join(f"{name} {result.power_w[name] / 1e3:,.3g} kW" for name in ("mean", "p99", "peak"))
        rows += [Fact("Power", watts), Fact("Energy", f"{three(result.energy_kwh)} kWh")]
    if result.feeds is not None:
        rows += _feeds(result.feeds)
    if result.carbon_kg is not None:
        rows.append(Fact("Carbon", f"{three(result.carbon_kg)} kg CO₂"))
    if result.cost is not None:
        rows.append(Fact("Cost", f"{dollars(result.cost)} for all devices over the makespan"))
    return tuple(rows)


def _feeds(feeds: PowerCourse) -> list[Fact]:
    """What feeds carried, and what their caps took."""
    worst = max(feeds.rows, key=lambda row: row.peak_w / row.limit_w)
    count = f"{len(feeds.rows)} rows of" if len(feeds.rows) > 1 else "one of"
    carried = f"{count} {worst.limit_w / 1e3:,.3g} kW; peak {percent(worst.peak_w / worst.limit_w)} of the limit"
    locks = f"locked for {duration(feeds.seconds_capped)}, {feeds.brakes:,} brakes"
    told = ((name, own) for name, own in (("low", feeds.low), ("high", feeds.high)) if own.jobs)
    slowed = [f"{own.jobs:,} jobs of {name} priority {percent(own.slowdown - 1.0)} slower" for name, own in told]
    return [Fact("Feeds", carried), Fact("Locked clocks", "; ".join([locks, *slowed]))]


def fleet_cells(one: FleetCourse) -> tuple[str, str, str, str, str]:
    """Of a fleet: name, what a replica is, how many answered, what they could not, devices, energy and money."""
    own, requests = one.fleet.replica, one.requests
    unmet = float(one.unmet.sum())
    share = f"{unmet:,.0f} of {requests:,.0f} requests unmet ({percent(unmet / requests)})" if requests else "no load"
    held = [f"{three(one.device_hours)} device-hours"]
    held += [] if one.energy_kwh is None else [f"{three(one.energy_kwh)} kWh"]
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


def _pods(result: PodResult) -> View:
    shares = [
        (f"Allocated at load {point['arrived_load']:.0%}", percent(point["share"])) for point in result.allocated_share
    ]
    idle = f"{percent(result.fragmentation)} of idle GPUs, for typical pods"
    rows = [*shares, ("Unusable at the end", idle), ("Pods without a node", f"{result.refused:,}")]
    hint = "pods arrive one after the other and stay"
    return View(
        title=result.scenario_name or "Pods",
        aside=f"in {seconds(result.simulated_in_s)}",
        lead=(f"{result.jobs:,} pods on {result.nodes:,} nodes with {result.devices:,} GPUs, {result.policy}",),
        facts=tuple(Fact(name, value) for name, value in rows),
        sections=(chart("Allocated GPUs", partial(charts.allocated, result), hint),),
    )
