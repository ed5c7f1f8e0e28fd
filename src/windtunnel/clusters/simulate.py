"""Jobs of a scenario on its cluster, from what `prepare` made to the result."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.clusters.carbon_shift import as_events, merged
from windtunnel.clusters.elastic import run_elastic
from windtunnel.clusters.elastic_batches import BatchJobs, run_batches
from windtunnel.clusters.elastic_policies import ElasticPolicy
from windtunnel.clusters.event_loop.power_records import NO_FEEDS
from windtunnel.clusters.event_loop.records import PAUSED, Outages, all_told, filled
from windtunnel.clusters.event_loop.run import Course, run_queue
from windtunnel.clusters.fleets import (
    HOUR_S,
    FleetCourse,
    Locks,
    ReplicaRows,
    fleet_courses,
    with_replicas,
    without_replicas,
)
from windtunnel.clusters.jobs import Jobs
from windtunnel.clusters.lost_time import lost_time
from windtunnel.clusters.metrics import (
    Load,
    beside_fleets,
    finish_time_fairness,
    load_over_time,
    spread,
    time_mean,
    time_quantile,
    weighted_quantile,
    with_watts,
)
from windtunnel.clusters.outages import causes_of, draw_outages
from windtunnel.clusters.pod_policies import POD_POLICIES
from windtunnel.clusters.pods import place_pods, read_nodes, read_pods
from windtunnel.clusters.policies.base import PRIORITY_S
from windtunnel.clusters.power_course import PowerCourse, power_course, series_of
from windtunnel.clusters.prepare import ClusterSource, Prepared, prepare_cluster, read_cluster
from windtunnel.clusters.result import ClusterResult, PodResult
from windtunnel.clusters.room import Room
from windtunnel.clusters.round_jobs import rules_of
from windtunnel.clusters.round_policies import RoundPolicy
from windtunnel.clusters.rounds import run_rounds
from windtunnel.clusters.sharing import run_sharing
from windtunnel.clusters.sharing_policies import SharingPolicy
from windtunnel.clusters.task_policies import TaskPolicy
from windtunnel.clusters.tasks import TaskRules, run_tasks
from windtunnel.errors import BadInput, Infeasible, Problem
from windtunnel.runs.intensity import intensity_of, year_mean
from windtunnel.scenarios.source import Source
from windtunnel.specs.jobs import JobsSpec
from windtunnel.techniques.knobs import named

_KWH = 3.6e6
_MOST_LOOKS = 8
"""Times that the hours planned for fleets are doubled until all jobs end within them."""


def simulate_cluster(
    source: Source, *, overrides: tuple[str, ...] | list[str] = (), twin: bool = False
) -> ClusterResult | PodResult:
    """Simulate all jobs of a scenario on its cluster.

    Args:
        source: path of a scenario file, a mapping of its fields, or a `Scenario`.
        overrides: `key=value` settings as `--set` takes them.
        twin: run the plain loop, whatever the size.

    Raises:
        BadInput: everything wrong with the scenario or its trace, at once.
        Infeasible: jobs that never find devices, because nodes fail sooner than jobs can end.
    """
    begun = time.perf_counter()
    given = read_cluster(source, overrides)
    if named(given.spec.policy)[0] in POD_POLICIES:
        return _pods(given, begun)
    if given.spec.nodes is not None:
        pods = ", ".join(POD_POLICIES.list())
        raise given.located(BadInput(Problem("jobs.nodes", f"is read by policies that place pods alone: {pods}")))
    ready = prepare_cluster(given)
    course, served = _with_fleets(ready, twin) if ready.fleets else (_course(ready, twin), ())
    if np.isnan(course.end_s).any():
        stuck = int(np.isnan(course.end_s).sum())
        raise Infeasible(f"{stuck:,} of {len(ready.jobs):,} jobs never end", "fewer outages, or checkpoints more often")
    return _result(ready, course, served, time.perf_counter() - begun)


def _pods(given: ClusterSource, begun: float) -> PodResult:
    """The run of a scenario whose policy places pods."""
    spec, folder = given.spec, given.folder
    policy_id, knobs = named(spec.policy)
    try:
        if spec.trace is None or spec.nodes is None:
            field = "jobs.trace" if spec.trace is None else "jobs.nodes"
            raise BadInput(Problem(field, f"is required with policy {policy_id}, which places pods on a list of nodes"))
        policy = POD_POLICIES.get(policy_id)
        policy.read(knobs, f"jobs.policy.{policy_id}")
        pods, rooms = read_pods(folder / spec.trace), read_nodes(folder / spec.nodes)
        course = place_pods(pods, rooms, policy, spec.fill, spec.seed)
    except BadInput as error:
        raise given.located(error) from None
    return PodResult(
        scenario_name=given.scenario.name,
        policy=policy_id,
        seed=spec.seed,
        jobs=course.pods,
        refused=course.refused,
        nodes=course.nodes,
        devices=course.gpus,
        allocated_share=course.allocated,
        utilisation=course.allocated[-1]["share"] if course.allocated else 0.0,
        fragmentation=course.fragments,
        simulated_in_s=time.perf_counter() - begun,
        techniques=tuple(t.technique.id for t in given.techniques),
        citations=tuple(t.technique.paper.line() for t in given.techniques),
        warnings=given.remarks,
    )


def _with_fleets(ready: Prepared, twin: bool) -> tuple[Course, tuple[FleetCourse, ...]]:
    """The course of the jobs next to fleets, whose hours are planned on until the jobs have ended.

    Raises:
        Infeasible: jobs that never find devices next to the fleets.
    """
    jobs, room, begin = ready.jobs, ready.room, float(ready.jobs.submit_s[0])
    table = filled(ready.table, ready.rules)
    work = float((jobs.work_s * jobs.devices).sum()) / room.devices
    hours = math.ceil((float(np.ptp(jobs.submit_s)) + work + float(jobs.work_s.max())) / HOUR_S) + 1
    for _ in range(_MOST_LOOKS):
        rows = with_replicas(ready.fleets, table, begin, hours, PRIORITY_S)
        beside = replace(ready, table=rows.table)
        course = _course(beside, twin, rows)
        alone = without_replicas(course, len(jobs))
        if np.isfinite(alone.end_s).all() and alone.end_s.max() <= rows.until_s:
            break
        hours *= 2
    else:
        stuck = int((~(alone.end_s <= rows.until_s)).sum())
        raise Infeasible(
            f"{stuck:,} of {len(jobs):,} jobs find no devices besides the fleets in {hours // 2:,} hours",
            "fewer replicas (`most`, `least`), or a lower priority of fleets",
        )
    causes = causes_of(ready.spec.outages, int(room.capacity.max()), ready.spec.seed)
    span = begin, float(alone.end_s.max())
    locks = None
    if ready.power is not None and course.power is not None:
        series = series_of(course.power, len(ready.power.limit_w))
        locks = Locks(rows=series, row_of=ready.power.row_of, high_priority=ready.power.spec.high_priority)
    price = room.price_per_device_hour
    return alone, fleet_courses(ready.fleets, rows, course, causes, span, room.busy_w, price, locks)


def _course(ready: Prepared, twin: bool, replicas: ReplicaRows | None = None) -> Course:
    policy, spec = ready.policy, ready.spec
    if isinstance(policy, RoundPolicy):
        assert ready.round_jobs is not None
        return run_rounds(ready.round_jobs, policy, rules_of(spec, ready.knobs))
    if isinstance(policy, SharingPolicy):
        assert ready.decide is not None
        rules = ready.rules
        return run_sharing(
            ready.table, ready.room.capacity, ready.decide, tick_s=rules.tick_s, restarts=bool(rules.repack)
        )
    if isinstance(policy, TaskPolicy):
        cuts = TaskRules(float(ready.knobs.get("part_s", np.inf)), float(ready.knobs.get("slice_s", np.inf)))
        order = policy.order(ready.knobs, ready.room.devices)
        return run_tasks(ready.jobs, ready.room.capacity, order, cuts)
    if isinstance(policy, ElasticPolicy):
        assert ready.elastic is not None
        slot_s = spec.round_s or policy.slot_s
        if isinstance(ready.elastic, BatchJobs):
            return run_batches(ready.elastic, policy, slot_s)
        return run_elastic(ready.elastic, policy, slot_s)
    choose = policy.chooser(ready.jobs, ready.room.devices) if policy.chooser is not None else None
    causes = causes_of(spec.outages, int(ready.room.capacity.max()), spec.seed)
    events = _outages(ready, 0.0 if replicas is None else replicas.until_s)
    if replicas is not None:
        events = merged(all_told(events), replicas.events)
    feeds = NO_FEEDS if ready.power is None else ready.power.feeds(replicas)
    return run_queue(ready.table, ready.rules, events, ready.room.capacity, choose, twin, causes, feeds)


def _outages(ready: Prepared, until_s: float = 0.0) -> Outages:
    """Drawn for as long as the jobs could take one after the other, and four times the whole work on full devices.

    They are drawn until a moment if that is later.
    """
    jobs, room = ready.jobs, ready.room
    work = float((jobs.work_s * jobs.devices).sum()) / room.devices
    horizon = float(np.ptp(jobs.submit_s)) + 4 * work + 4 * float(jobs.work_s.max())
    horizon = max(horizon, until_s - float(jobs.submit_s[0]))
    drawn = draw_outages(ready.spec.outages, room.capacity, horizon, float(jobs.submit_s[0]), ready.spec.seed)
    return drawn if ready.windows is None else merged(all_told(drawn), as_events(ready.windows))


def _result(ready: Prepared, course: Course, served: tuple[FleetCourse, ...], passed_s: float) -> ClusterResult:
    jobs, room, rows, spec = ready.jobs, ready.room, ready.measured, ready.spec
    idle_w = room.idle_w
    own = np.full(len(jobs), np.nan) if jobs.watts is None or spec.job_watts_per_device is not None else jobs.watts
    busy = np.where(np.isnan(own), np.nan if room.busy_w is None else room.busy_w, own)
    above = busy - (np.nan if idle_w is None else idle_w)
    load = load_over_time(jobs, course.segments, course.end_s, above, course.held)
    if served:
        load = beside_fleets(load, [_stretches(one, idle_w) for one in served], float(jobs.submit_s[0]))
    fed = _fed(ready, course)
    if fed is not None:
        load = with_watts(load, fed.time_s, fed.mean_w - (idle_w or 0.0) * room.devices)
    fairness = finish_time_fairness(jobs, load, course.end_s, room.devices, jobs.submit_s)[rows]
    jct = course.end_s - jobs.submit_s
    makespan = float(course.end_s.max() - jobs.submit_s[0])
    busy_share = (load.busy + load.serving) / room.devices
    power = _power(load, room, spec)
    energy = None if power is None else power["mean"] * makespan / _KWH
    if fed is not None and power is not None:
        lengths = np.diff(fed.time_s, append=float(course.end_s.max()))
        power["p99"] = weighted_quantile(fed.reading_w, lengths, 0.99) * spec.pue
        power["peak"] = float(fed.reading_w.max()) * spec.pue
    price = room.price_per_device_hour
    return ClusterResult(
        scenario_name=ready.scenario.name,
        policy=ready.policy_id,
        placement=named(spec.placement)[0],
        seed=spec.seed,
        jobs=len(jct[rows]),
        jct_s=spread(jct[rows]),
        makespan_s=makespan,
        queue_s=spread(np.maximum(jct - course.run_s, 0.0)[rows]),
        utilisation=time_mean(busy_share, load),
        fragmentation=time_mean((1 - busy_share) * (load.waiting > 0), load),
        fairness_mean=float(fairness.mean()),
        fairness_worst=float(fairness.max()),
        deadlines_met=_deadlines_met(jobs, course.end_s),
        preemptions=int((course.starts - 1 - course.kills).sum() - (course.segments.why == PAUSED).sum()),
        outage_kills=int(course.kills.sum()),
        lost=lost_time(
            course.segments,
            jobs.devices,
            jobs.work_s,
            ready.table.overhead_s,
            course.held,
            0.0 if fed is None else fed.low.lost_device_h + fed.high.lost_device_h,
            isinstance(ready.policy, RoundPolicy | ElasticPolicy),
        ),
        energy_kwh=energy,
        carbon_kg=_carbon_kg(ready, load),
        cost=None if price is None else price * room.devices * makespan / 3600,
        power_w=power,
        feeds=fed,
        pue=spec.pue,
        allocated_share=(),
        simulated_in_s=passed_s,
        events=course.events,
        room=room,
        table=jobs,
        end_s=course.end_s,
        first_start_s=course.first_start_s,
        run_s=course.run_s,
        segments=course.segments,
        load=load,
        serving=served,
        assumed=ready.assumed,
        techniques=tuple(t.technique.id for t in ready.techniques),
        citations=tuple(t.technique.paper.line() for t in ready.techniques),
        warnings=ready.remarks,
    )


def _fed(ready: Prepared, course: Course) -> PowerCourse | None:
    """What became of rows under their feeds; None where there are none."""
    power, jobs = ready.power, ready.jobs
    if power is None or course.power is None or course.brakes is None or course.held_back_s is None:
        return None
    return power_course(
        series_of(course.power, len(power.limit_w)),
        power.limit_w,
        course.brakes,
        (float(jobs.submit_s[0]), float(course.end_s.max())),
        (power.high == 1, jobs.devices.astype(np.float64), course.run_s, course.held_back_s[: len(jobs)]),
    )


def _stretches(one: FleetCourse, idle_w: float | None) -> Floats:
    """Stretches of a fleet's devices in each hour: start, end, devices, watts above idle; shape (N, 4)."""
    start, end, devices, hour = one.by_hour()
    watts = devices * (one.watts[hour] - (np.nan if idle_w is None else idle_w))
    return np.stack([start, end, devices, watts], axis=1)


def _power(load: Load, room: Room, spec: JobsSpec) -> dict[str, Any] | None:
    """Watts of the room; None where a device's are not known."""
    if room.idle_w is None or np.isnan(load.watts).any():
        return None
    watts = (room.idle_w * room.devices + load.watts) * spec.pue
    quantile = time_quantile(watts, load, 0.99)
    return {"mean": time_mean(watts, load), "p99": quantile, "peak": float(watts.max())}


def _carbon_kg(ready: Prepared, load: Load) -> float | None:
    """Kilograms of CO₂ of the room's watts, hour by hour where the start is known."""
    spec, room = ready.spec, ready.room
    if spec.grid is None or room.idle_w is None or np.isnan(load.watts).any():
        return None
    watts = (room.idle_w * room.devices + load.watts) * spec.pue
    moments = load.time_s - load.time_s[0]
    if spec.start is None:
        return year_mean(spec.grid, ready.folder, "jobs.grid") * float(watts[:-1] @ np.diff(moments)) / _KWH / 1e3
    hours = intensity_of(spec.grid, spec.start, float(moments[-1]), ready.folder, "jobs.grid")
    return float(watts[:-1] @ np.diff(hours.integral(moments))) / _KWH / 1e3


def _deadlines_met(jobs: Jobs, end_s: Floats) -> float | None:
    if jobs.deadline_s is None or not np.isfinite(jobs.deadline_s).any():
        return None
    told = np.isfinite(jobs.deadline_s)
    return float((end_s[told] <= jobs.deadline_s[told] + 1e-9).mean())
