"""A scenario with `jobs` and its trace, looked up and checked: all that the loops need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.clusters.batch_jobs import Applications, applications_of, batch_jobs, with_profiled_work
from windtunnel.clusters.carbon_shift import Windows, latest_ends, plan_windows
from windtunnel.clusters.elastic import ElasticJobs
from windtunnel.clusters.elastic_batches import BatchJobs
from windtunnel.clusters.elastic_jobs import elastic_jobs
from windtunnel.clusters.elastic_policies import ELASTIC_POLICIES, ElasticPolicy
from windtunnel.clusters.event_loop.records import NEVER, JobTable, Rules
from windtunnel.clusters.event_loop.reference import Twin
from windtunnel.clusters.fleets import (
    Fleet,
    read_load,
    replicas_that_fit,
)
from windtunnel.clusters.job_mix import generate_mix
from windtunnel.clusters.job_power import JobPower, job_power
from windtunnel.clusters.jobs import Jobs
from windtunnel.clusters.outages import draw_outages
from windtunnel.clusters.placements import PLACEMENTS
from windtunnel.clusters.pod_policies import POD_POLICIES
from windtunnel.clusters.policies import POLICIES, QueuePolicy
from windtunnel.clusters.replica_figures import replica_figures
from windtunnel.clusters.room import Room, room_of
from windtunnel.clusters.round_jobs import check_rounds, jobs_in_rounds
from windtunnel.clusters.round_policies import ROUND_POLICIES, RoundPolicy
from windtunnel.clusters.rounds import RoundJobs
from windtunnel.clusters.scenario_speeds import StepTimes, with_simulated_speeds
from windtunnel.clusters.sharing_policies import SHARING_POLICIES, SharingPolicy
from windtunnel.clusters.sharing_policies.base import Decide
from windtunnel.clusters.task_policies import TASK_POLICIES, TaskPolicy
from windtunnel.clusters.throughputs import Throughputs, check_kinds, generate, kinds_of, read_throughputs
from windtunnel.clusters.traces.base import MOST_PROBLEMS, read_trace
from windtunnel.errors import UNSET, BadInput, Problem, SourceLines, WindtunnelError, nearest_name
from windtunnel.registry import Registry
from windtunnel.runs.intensity import intensity_of, year_mean
from windtunnel.scenarios.load import load
from windtunnel.scenarios.source import Source
from windtunnel.specs.cluster import ClusterRef
from windtunnel.specs.jobs import JobsSpec, ServingFleetSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques import Applied, applied, idle, on_jobs_section, remarks
from windtunnel.techniques.knobs import named

AnyPolicy = QueuePolicy | RoundPolicy | SharingPolicy | TaskPolicy | ElasticPolicy
_POLICY_KINDS: tuple[Registry[Any], ...] = (
    POLICIES,
    ROUND_POLICIES,
    POD_POLICIES,
    SHARING_POLICIES,
    TASK_POLICIES,
    ELASTIC_POLICIES,
)
_MOST_TURNS = 3e8
"""Times that managers of feeds may act in a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSource:
    """A scenario as it was written, with its jobs as techniques leave them."""

    scenario: Scenario
    spec: JobsSpec
    lines: SourceLines | None
    """Where its fields stand in the file."""
    folder: Path
    """What its paths are relative to."""
    techniques: tuple[Applied, ...]
    """Published systems that act on the jobs."""
    remarks: tuple[str, ...]
    """On the others."""

    def located(self, error: BadInput) -> BadInput:
        """The error with the lines of the file."""
        return error if self.lines is None else error.located(self.lines)


def read_cluster(source: Source, overrides: tuple[str, ...] | list[str] = ()) -> ClusterSource:
    """Read a scenario with `jobs`.

    Raises:
        BadInput: it has none, or techniques that are not known, conflict, or cannot do what they are asked for.
    """
    scenario, lines, folder = load(source, overrides)
    try:
        if scenario.jobs is None:
            raise BadInput(Problem("jobs", f"is required: what runs on the cluster{scenario.own_verb}"))
        chosen = applied(scenario.techniques)
        unused = idle(chosen, scenario, "cluster")
        spec = on_jobs_section(chosen, scenario.jobs, scenario)
    except BadInput as error:
        raise error.located(lines) if lines is not None else error from None
    return ClusterSource(
        scenario=scenario,
        spec=spec,
        lines=lines,
        folder=folder,
        techniques=tuple(t for t in chosen if t.technique.id not in unused),
        remarks=remarks(chosen, scenario, "cluster"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Everything looked up and checked."""

    scenario: Scenario
    spec: JobsSpec
    room: Room
    jobs: Jobs
    policy_id: str
    policy: AnyPolicy
    decide: Decide | None
    """Of policies under which jobs share devices."""
    table: JobTable
    rules: Rules
    folder: Path
    """What the scenario's paths are relative to."""
    windows: Windows | None
    """Of jobs that wait for cleaner hours."""
    round_jobs: RoundJobs | None
    """Of policies that decide in rounds."""
    elastic: ElasticJobs | BatchJobs | None
    """Of policies that choose how many devices a job has."""
    knobs: Mapping[str, Any]
    measured: slice
    fleets: tuple[Fleet, ...]
    """Serving next to the jobs."""
    power: JobPower | None
    """Of rows of nodes that share feeds."""
    assumed: tuple[tuple[str, str, str], ...]
    techniques: tuple[Applied, ...] = ()
    """Published systems that act on the jobs section."""
    remarks: tuple[str, ...] = ()


def prepare_cluster(given: ClusterSource) -> Prepared:
    """Look up the trace and the policy of a scenario, and check that every job fits the empty room.

    Raises:
        BadInput: everything wrong, at once.
    """
    scenario, spec, folder = given.scenario, given.spec, given.folder
    try:
        room = room_of(scenario.cluster, spec)
        table = None if spec.throughputs is None else read_throughputs(folder / spec.throughputs)
        policy_id, policy, knobs = _policy(spec, table, room)
        profiles = applications_of(spec, folder)
        times = StepTimes(scenario.cluster)
        jobs = with_profiled_work(_jobs(spec, folder, table, room, times), profiles, room)
        if jobs.kind_speed is not None and not isinstance(policy, RoundPolicy):
            _check_one_kind(policy_id, room)
        round_jobs = None
        if isinstance(policy, RoundPolicy):
            check_rounds(jobs, spec, room, policy_id, policy)
            round_jobs = jobs_in_rounds(jobs, _overhead(jobs, spec), table, room)
            jobs = replace(jobs, work_s=round_jobs.work)
        decide = _decide(policy, jobs, knobs, spec)
        windows = _windows(jobs, spec, folder)
        if windows is not None and not isinstance(policy, QueuePolicy):
            raise BadInput(Problem("jobs.shift", f"is not simulated with policy {policy_id}"))
        elastic = None
        if isinstance(policy, ElasticPolicy):
            elastic = _elastic(jobs, spec, (table, profiles), room)
        fleets = _fleets(spec, folder, room, policy_id, times)
        power = _power(spec, jobs, room, times, folder, policy)
        rules = _rules(policy, knobs, jobs, spec)
        key = _key(jobs, policy) if isinstance(policy, QueuePolicy) else jobs.submit_s
    except BadInput as error:
        raise given.located(error) from None
    queue = JobTable(jobs.submit_s, jobs.devices, jobs.work_s, jobs.estimates, key, _overhead(jobs, spec))
    if jobs.spread_speed is not None:
        own = jobs.spread_speed
        queue = queue._replace(spread_speed=np.where(np.isnan(own), spec.spread_speed, own))
    if windows is not None:
        queue = queue._replace(held=np.ones(len(jobs), np.int64))
    if not isinstance(policy, TaskPolicy):  # tasks need one device each
        _check_sizes(jobs, room, queue, rules)
    notes = jobs.notes
    if spec.start_overhead_s is not None:
        notes = tuple(note for note in notes if note[0] != "jobs.start_overhead_s")
    return Prepared(
        scenario=scenario,
        spec=spec,
        room=room,
        jobs=jobs,
        policy_id=policy_id,
        policy=policy,
        decide=decide,
        table=queue,
        rules=rules,
        folder=folder,
        windows=windows,
        round_jobs=round_jobs,
        elastic=elastic,
        knobs=knobs,
        measured=slice(*spec.generate.measure) if spec.generate and spec.generate.measure else slice(0, len(jobs)),
        fleets=fleets,
        power=power,
        assumed=(
            *notes,
            *room.assumed,
            *(note for i, fleet in enumerate(fleets) for note in _fleet_notes(fleet, f"jobs.serving.{i}")),
            *(() if power is None else (power.note,)),
        ),
        techniques=given.techniques,
        remarks=given.remarks,
    )


def _policy(spec: JobsSpec, table: Throughputs | None, room: Room) -> tuple[str, AnyPolicy, Mapping[str, Any]]:
    """The policy by its id: the one of rounds where devices differ, or where there is no other of that name."""
    policy_id, given = named(spec.policy)
    unlike = len(kinds_of(room.labels)) > 1
    policies = _registry_of(policy_id, unlike)
    if policies is POLICIES and table is not None:
        _check_one_kind(policy_id, room)
    policy = policies.get(policy_id)
    return policy_id, policy, policy.read(given, f"jobs.policy.{policy_id}")


def _registry_of(policy_id: str, unlike: bool) -> Registry[Any]:
    """The kind of a policy by its id.

    Raises:
        BadInput: there is no such policy.
    """
    if policy_id in ROUND_POLICIES and (unlike or policy_id not in POLICIES):
        return ROUND_POLICIES
    kinds: tuple[Registry[Any], ...] = (SHARING_POLICIES, TASK_POLICIES, ELASTIC_POLICIES, POLICIES)
    for policies in kinds:
        if policy_id in policies:
            return policies
    known = {name for kind in _POLICY_KINDS for name in kind.list()}
    near = nearest_name(policy_id, known)
    rule = f"no such policy; known: {', '.join(sorted(known))}"
    raise BadInput(Problem("jobs.policy", rule, policy_id, nearest=near))


def _windows(jobs: Jobs, spec: JobsSpec, folder: Path) -> Windows | None:
    """When jobs run that wait for cleaner hours; the grid is looked up even where none does, to refuse it early.

    Raises:
        BadInput: the grid is not known or does not hold the hours.
    """
    if spec.grid is None:
        return None
    if spec.shift is None or spec.start is None:
        year_mean(spec.grid, folder, "jobs.grid")
        return None
    begin = float(jobs.submit_s[0])
    submit = jobs.submit_s - begin
    deadline = None if jobs.deadline_s is None else jobs.deadline_s - begin
    work = jobs.work_s + _overhead(jobs, spec)
    latest = latest_ends(spec.shift, spec.start, submit, work, deadline)
    hours = intensity_of(spec.grid, spec.start, float(latest.max()), folder, "jobs.grid")
    plan = plan_windows(spec.shift, submit, work, latest, hours, spec.seed)
    return replace(plan, start_s=plan.start_s + begin, end_s=plan.end_s + begin)


def _check_one_kind(policy_id: str, room: Room) -> None:
    if len(kinds_of(room.labels)) > 1:
        rule = f"does not know unlike devices; those that do: {', '.join(ROUND_POLICIES.list())}"
        raise BadInput(Problem("jobs.policy", rule, policy_id))


def _decide(policy: AnyPolicy, jobs: Jobs, knobs: Mapping[str, Any], spec: JobsSpec) -> Decide | None:
    if not isinstance(policy, SharingPolicy | TaskPolicy):
        return None
    if spec.outages is not None:
        raise BadInput(Problem("jobs.outages", "are not simulated with policies of shared devices or of tasks"))
    return None if isinstance(policy, TaskPolicy) else policy.prepare(jobs, knobs, spec.seed)


def _rules(policy: AnyPolicy, knobs: Mapping[str, Any], jobs: Jobs, spec: JobsSpec) -> Rules:
    queue = policy if isinstance(policy, QueuePolicy) else QueuePolicy(name="first in, first out", source="")
    place_id, given = named(spec.placement)
    place = PLACEMENTS.get(place_id, field="jobs.placement")
    own = place.read(given, f"jobs.placement.{place_id}")
    repack = (queue.preemptive or isinstance(policy, SharingPolicy)) and (
        spec.overhead_at or jobs.overhead_at
    ) == "decisions"
    _check_guarantee(spec, policy, repack)
    return Rules(
        kind=queue.kind,
        preemptive=queue.preemptive,
        blocking=queue.blocking,
        placement=place.kind,
        repack=repack,
        limits=np.zeros(0) if queue.limits is None else queue.limits(jobs, knobs),
        spread_speed=spec.spread_speed,
        save_s=spec.outages.save_interval_s if spec.outages is not None and spec.outages.save_interval_s else 1e-9,
        depth=int(knobs.get("depth", 1)),
        tick_s=0.0 if spec.round_s is None else spec.round_s,
        preempted_save=spec.preempted_jobs == "save",
        guaranteed_s=spec.guaranteed_run,
        relax_s=NEVER if place.relaxed is None else float(own["wait_s"]),
        relaxed=place.kind if place.relaxed is None else place.relaxed,
    )


def _check_guarantee(spec: JobsSpec, policy: AnyPolicy, repack: bool) -> None:
    """Refuse a guarantee where nothing keeps it.

    Raises:
        BadInput: the policy never preempts, or moves all jobs at every decision.
    """
    if spec.guaranteed_run <= 0:
        return
    if not isinstance(policy, QueuePolicy) or not policy.preemptive:
        kept = ", ".join(name for name, one in POLICIES.items() if one.preemptive)
        rule = f"needs a policy of queues that preempts: {kept}"
        raise BadInput(Problem("jobs.guaranteed_run", rule, spec.guaranteed_run))
    if repack:
        rule = "needs `overhead_at: starts`: with `decisions` everything is placed anew at each of them"
        raise BadInput(Problem("jobs.guaranteed_run", rule, spec.guaranteed_run))


def _power(
    spec: JobsSpec, jobs: Jobs, room: Room, times: StepTimes, folder: Path, policy: AnyPolicy
) -> JobPower | None:
    """Feeds of rows of nodes, and what jobs draw at each clock.

    Raises:
        BadInput: a policy without them, or devices of which nobody knows what they draw.
    """
    if spec.power is None:
        return None
    if not isinstance(policy, QueuePolicy):
        rule = f"is simulated with policies of queues: {', '.join(POLICIES.list())}"
        raise BadInput(Problem("jobs.power", rule, named(spec.policy)[0]))
    ready = job_power(spec.power, jobs, room, times, folder if spec.trace is None else (folder / spec.trace).parent)
    longest = float((jobs.work_s + _overhead(jobs, spec)).max())
    work = float((jobs.work_s * jobs.devices).sum()) / room.devices
    span = float(np.ptp(jobs.submit_s)) + 4 * (work + longest)
    turns = span / (spec.power.delay + spec.power.brake_after) * len(ready.limit_w)
    if turns > _MOST_TURNS:
        days = f"{span / 86400:,.3g} days that the jobs may take"
        rule = f"could act up to {turns:.1g} times in the {days}; {_MOST_TURNS:.0e} are simulated"
        raise BadInput(Problem("jobs.power.delay", f"is too short: managers {rule}", spec.power.delay))
    return ready


def _jobs(spec: JobsSpec, folder: Path, table: Throughputs | None, room: Room, times: StepTimes) -> Jobs:
    if spec.trace is not None:
        file = folder / spec.trace
        return with_simulated_speeds(read_trace(file, spec.format, spec.time_unit_s), times, file.parent)
    assert spec.generate is not None
    if spec.generate.classes:
        return with_simulated_speeds(generate_mix(spec.generate, spec.seed), times, folder)
    if table is None:
        raise BadInput(Problem("jobs.throughputs", "is required with `generate`: the types of jobs and their speeds"))
    kinds = kinds_of(room.labels)
    check_kinds(table, kinds)
    return generate(spec.generate, table, kinds[0], spec.seed)


def _fleets(spec: JobsSpec, folder: Path, room: Room, policy_id: str, times: StepTimes) -> tuple[Fleet, ...]:
    """Serving next to the jobs, each fleet's replica simulated on the room's devices.

    Raises:
        BadInput: everything wrong with any of them.
    """
    if not spec.serving:
        return ()
    if policy_id != "priority":
        rule = "needs policy priority: replicas take the devices of jobs of lower priority"
        raise BadInput(Problem("jobs.serving", rule, policy_id))
    kinds = times.kinds()
    if len(kinds) > 1:
        raise BadInput(Problem("jobs.serving", "is simulated on one kind of device", ", ".join(kinds)))
    found: list[Fleet] = []
    problems: list[Problem] = []
    for i, own in enumerate(spec.serving):
        try:
            found.append(_fleet(own, f"jobs.serving.{i}", spec, folder, room, kinds))
        except BadInput as error:
            problems += error.problems
    if problems:
        raise BadInput(problems)
    always = sum(fleet.least * fleet.replica.devices for fleet in found)
    if always > room.devices:
        rule = f"must leave room for each other: the least replicas of all fleets hold more than {room.devices} devices"
        raise BadInput(Problem("jobs.serving", rule, always))
    return tuple(found)


def _fleet(
    own: ServingFleetSpec, field: str, spec: JobsSpec, folder: Path, room: Room, kinds: Mapping[str, ClusterRef]
) -> Fleet:
    loads = read_load(own, folder, spec.start, f"{field}.load")
    label, part = next(iter(kinds.items()))
    locks = (1.0,) if spec.power is None else spec.power.clocks
    parts = [part if lock == 1.0 else part.model_copy(update={"clock_share": lock}) for lock in locks]
    try:
        at_clock = tuple(replica_figures(folder / own.scenario, one, label) for one in parts)
        replica = at_clock[0]
    except WindtunnelError as error:
        rule = f"cannot serve on {label}: {str(error).strip().splitlines()[0]}"
        raise BadInput(Problem(f"{field}.scenario", rule, own.scenario)) from None
    most = replicas_that_fit(room.capacity, replica.devices)
    for name, value in (("least", own.least), ("most", own.most or 0)):
        if value > most:
            rule = f"must be at most {most}: replicas of {replica.devices} devices that the cluster holds"
            raise BadInput(Problem(f"{field}.{name}", rule, value))
    return Fleet(
        name=own.name or replica.name or f"fleet {field.rsplit('.', 1)[-1]}",
        replica=replica,
        load_per_s=loads,
        least=own.least,
        most=own.most or most,
        priority=own.priority,
        start_up_s=replica.start_up_s if own.start_up is None else own.start_up,
        at_clock=() if spec.power is None else at_clock,
    )


def _fleet_notes(fleet: Fleet, field: str) -> list[tuple[str, str, str]]:
    """What a reader has to know of a fleet; `field`: where it is written."""
    own = fleet.replica
    rate = f"{own.rate_per_s:.3g} requests/s a replica of {own.devices} devices"
    why = f"fleet {fleet.name}: simulated under its objective, {own.low_per_s:.3g} to {own.high_per_s:.3g}"
    start = own.assumed if fleet.start_up_s == own.start_up_s else ()
    parts = [(f"{field}.start_up", value, f"{name.rsplit('.', 1)[-1]}: {told}") for name, value, told in start]
    dropped = [(field, name, "of its scenario is not read: a fleet has its own") for name in own.dropped]
    return [(field, rate, why), *parts, *dropped]


def _elastic(
    jobs: Jobs, spec: JobsSpec, speeds: tuple[Throughputs | None, Applications | None], room: Room
) -> ElasticJobs | BatchJobs:
    """Jobs that choose their devices, by a table of throughputs or by profiles of applications."""
    table, profiles = speeds
    if profiles is not None:
        return batch_jobs(jobs, spec, _overhead(jobs, spec), profiles, room)
    return elastic_jobs(jobs, spec, _overhead(jobs, spec), table, room)


def _key(jobs: Jobs, policy: QueuePolicy) -> Floats:
    """What the queue is ordered by, where that does not change.

    Raises:
        BadInput: the policy needs what the trace does not have, or its key is not a number of each job.
    """
    if policy.key is None:
        return jobs.submit_s
    key: Floats = np.asarray(policy.key(jobs), np.float64)
    if key.shape != jobs.submit_s.shape or np.isnan(key).any():
        rule = f"has a key that is not a number of each of the {len(jobs):,} jobs"
        raise BadInput(Problem("jobs.policy", rule, policy.name))
    return key


def _overhead(jobs: Jobs, spec: JobsSpec) -> Floats:
    if spec.start_overhead_s is None and jobs.overhead_s is not None:
        return jobs.overhead_s
    return np.full(len(jobs), spec.start_overhead_s or 0.0)


def _check_sizes(jobs: Jobs, room: Room, table: JobTable, rules: Rules) -> None:
    """Refuse jobs that the empty room cannot hold."""
    empty = Twin(table, rules, draw_outages(None, room.capacity, 0.0, 0.0, 0), room.capacity.tolist())
    sizes = [int(size) for size in np.unique(jobs.devices)]
    total = room.devices
    fits = {size: size <= total and bool(empty.place(size, empty.capacity)) for size in sizes}
    wrong = [i for i in range(len(jobs)) if not fits[int(jobs.devices[i])]] if not all(fits.values()) else []
    if not wrong:
        return
    held = max((size for size, holds in fits.items() if holds), default=0)
    problems = []
    for i in wrong[:MOST_PROBLEMS]:
        size = int(jobs.devices[i])
        where = f"{total:,} devices" if size > total else f"nodes of {int(room.capacity.max())}, packed"
        rule = f"job {jobs.names[i]} is larger than the cluster holds ({where}; the largest that fits has {held})"
        line = None if jobs.lines is None else int(jobs.lines[i])
        problems.append(Problem("devices", rule, size, file=jobs.file, line=line))
    if len(wrong) > MOST_PROBLEMS:
        problems.append(Problem("", f"and {len(wrong) - MOST_PROBLEMS:,} more", UNSET, file=jobs.file))
    raise BadInput(problems)
