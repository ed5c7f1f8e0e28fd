"""Jobs of a scenario whose applications have measured profiles: how long as tuned, and as jobs that choose batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.clusters.applications import MOST_PROBLEMS, Application, read_applications
from windtunnel.clusters.elastic_batches import BatchJobs
from windtunnel.clusters.jobs import Jobs
from windtunnel.clusters.room import Room
from windtunnel.clusters.throughputs import kinds_of
from windtunnel.errors import BadInput, Problem, nearest_name
from windtunnel.specs.jobs import JobsSpec

Applications = Mapping[str, Application]


def applications_of(spec: JobsSpec, folder: Path) -> Applications | None:
    """The profiles that a scenario names; None: none.

    Raises:
        BadInput: what is wrong with them, or with other settings next to them.
    """
    if spec.applications is None:
        return None
    if spec.throughputs is not None:
        raise BadInput(Problem("jobs.applications", "is given with `throughputs`"))
    return read_applications(folder / spec.applications)


def with_profiled_work(jobs: Jobs, applications: Applications | None, room: Room) -> Jobs:
    """Seconds of jobs that say devices and batch, by their profiles on the fewest nodes; what spreading costs them.

    Raises:
        BadInput: no profiles, an application without one, or devices and a batch that do not fit each other.
    """
    if jobs.batch_size is None:
        return jobs
    if applications is None:
        rule = "is required with this trace: the folder with measured profiles of its applications"
        raise BadInput(Problem("jobs.applications", rule))
    problems, known = [], {}
    per_node = int(room.capacity.max())
    for j, (kind, size, batch) in enumerate(
        zip(jobs.kinds, jobs.devices.tolist(), jobs.batch_size.tolist(), strict=True)
    ):
        line = None if jobs.lines is None else int(jobs.lines[j])
        own = applications.get(kind)
        if own is None:
            near, rule = nearest_name(kind, applications), f"has no profile; known: {', '.join(applications)}"
            problems.append(Problem("application", rule, kind, file=jobs.file, line=line, nearest=near))
            continue
        limits = own.limits
        if not limits.first <= batch <= limits.most or batch < size * limits.least_local:
            low = max(limits.first, size * limits.least_local)
            rule = f"must be between {low:g} and {limits.most:g} for {kind} on {size} devices"
            problems.append(Problem("batch_size", rule, batch, file=jobs.file, line=line))
            continue
        at = kind, size, batch
        if at not in known:
            known[at] = _seconds(own, size, batch, per_node)
    if problems:
        raise BadInput(problems[:MOST_PROBLEMS])
    keys = zip(jobs.kinds, jobs.devices.tolist(), jobs.batch_size.tolist(), strict=True)
    work, spread = np.array([known[key] for key in keys]).T
    return replace(jobs, work_s=work, spread_speed=work / spread)


def _seconds(own: Application, size: int, batch: float, per_node: int) -> tuple[float, float]:
    """Of a job on the fewest nodes, and spread evenly over twice as many; never less than on the fewest."""
    whole, rest = divmod(size, per_node)
    packed = own.seconds((per_node,) * whole + (rest,) * (rest > 0), batch)
    nodes = min(2 * (whole + (rest > 0)), size)
    each, more = divmod(size, nodes)
    return packed, max(own.seconds((each,) * (nodes - more) + (each + 1,) * more, batch), packed)


def batch_jobs(jobs: Jobs, spec: JobsSpec, overhead_s: Floats, applications: Applications, room: Room) -> BatchJobs:
    """Jobs of policies that choose devices, batches with them.

    Raises:
        BadInput: unlike devices, outages, or jobs without an application.
    """
    if spec.outages is not None:
        raise BadInput(Problem("jobs.outages", "are not simulated with policies of elastic jobs"))
    kinds = kinds_of(room.labels)
    if len(kinds) > 1:
        rule = f"must all be of one kind for policies of elastic jobs: {', '.join(kinds)}"
        raise BadInput(Problem("cluster.groups", rule))
    if jobs.batch_size is None:
        raise BadInput(Problem("jobs.applications", "needs a trace with applications and batches (format `pollux`)"))
    return BatchJobs(
        submit_s=jobs.submit_s,
        applications=tuple(applications[kind] for kind in jobs.kinds),
        deadline_s=np.full(len(jobs), np.inf) if jobs.deadline_s is None else jobs.deadline_s,
        overhead_s=overhead_s,
        capacity=room.capacity,
    )
