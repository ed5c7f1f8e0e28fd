"""What jobs and replicas draw, and how fast they are, at each clock that a row's feed may lock.

A job with a scenario is simulated at each clock. Of other jobs it is only known what they draw: their work is taken to
wait for the matrix units all the time, so that they slow down as the clock does and their watts above idle fall with
it (the energy of an operation stays). A replica's rate and watts are those of its scenario under the locked clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.clusters.event_loop.power_records import CLOCKS, NO_FEEDS, RESOLUTION_W, Feeds
from windtunnel.clusters.fleets import ReplicaRows
from windtunnel.clusters.jobs import Jobs
from windtunnel.clusters.room import Room
from windtunnel.clusters.scenario_speeds import Step, StepTimes, device_of, packed
from windtunnel.cost.clock import cap_of_lock
from windtunnel.cost.coefficients import coefficients
from windtunnel.errors import BadInput, Problem
from windtunnel.specs.jobs import PowerSpec

_ANY_FRAMEWORK = "generic"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPower:
    """Rows and jobs, before it is known which replicas stand next to them."""

    spec: PowerSpec
    row_of: Ints
    """Of each node."""
    limit_w: Floats
    idle_w: Floats
    """Of each row without a job."""
    gain: float
    """Watts that a node draws more for each watt that one of its devices draws more."""
    device_idle_w: float
    mean_w: Floats
    """(n, CLOCKS) of a job's device."""
    peak_w: Floats
    speed: Floats
    high: Ints
    simulated: int
    """Jobs whose watts and speeds come from their scenarios."""

    @property
    def note(self) -> tuple[str, str, str]:
        """What a reader has to know."""
        why = "the others slow down as the clock does, and their watts above idle fall with it"
        return "jobs.power", f"{self.simulated:,} of {len(self.high):,} jobs simulated at each clock", why

    def feeds(self, replicas: ReplicaRows | None) -> Feeds:
        """Rows, jobs and the replicas that follow them as the loop reads them."""
        spec, idle = self.spec, self.device_idle_w
        high, fleet, speed = self.high, np.full(len(self.high), -1, np.int64), self.speed
        mean, peak = self.gain * (self.mean_w - idle), self.gain * (self.peak_w - idle)
        fleet_w = np.zeros((0, 0, CLOCKS))
        begin = 0.0
        if replicas is not None:
            fleet = np.concatenate([fleet, replicas.fleet])
            own_high = np.array([int(one.priority >= spec.high_priority) for one in replicas.fleets], np.int64)
            rates = np.array([[at.rate_per_s for at in one.at_clock] for one in replicas.fleets])
            own_speed = np.minimum(rates / rates[:, :1], 1.0)
            nothing = np.zeros((len(replicas.fleet), CLOCKS))
            high = np.concatenate([high, own_high[replicas.fleet]])
            speed = np.concatenate([speed, own_speed[replicas.fleet]])
            mean, peak = np.concatenate([mean, nothing]), np.concatenate([peak, nothing])
            begin = replicas.begin_s
            drawn = np.stack([one.watts_at_clock(replicas.hours) for one in replicas.fleets])
            fleet_w = self.gain * (drawn - idle)
        return NO_FEEDS._replace(
            row_of=self.row_of,
            limit_w=self.limit_w,
            idle_w=_whole(self.idle_w),
            mean_w=_whole(mean),
            peak_w=_whole(peak),
            speed=speed,
            high=high,
            fleet=fleet,
            fleet_w=_whole(fleet_w),
            begin_s=begin,
            first=spec.first,
            second=spec.second,
            release=spec.release,
            delay_s=spec.delay,
            brake_s=spec.brake_after,
            caps=spec.caps,
        )


def _whole(watts: Floats) -> Floats:
    """Rounded, so that sums do not depend on their order."""
    found: Floats = np.maximum(np.rint(watts / RESOLUTION_W) * RESOLUTION_W, 0.0)
    return found


def job_power(spec: PowerSpec, jobs: Jobs, room: Room, times: StepTimes, folder: Path) -> JobPower:
    """Rows of nodes, and what jobs draw on them at each clock.

    Args:
        spec: of the feeds.
        jobs: with their lengths.
        room: nodes and watts of their devices.
        times: of steps on the room's devices.
        folder: what the jobs' scenarios are relative to.

    Raises:
        BadInput: devices of which the catalogue has no design power, or unlike ones.
    """
    kinds = times.kinds()
    if len(kinds) > 1:
        raise BadInput(Problem("jobs.power", "is simulated on one kind of device", ", ".join(kinds)))
    label, part = next(iter(kinds.items()))
    try:
        device = device_of(part)
    except BadInput:
        device = None
    if device is None or not device.tdp_w or room.idle_w is None or room.busy_w is None:
        raise BadInput(Problem("jobs.power", "needs a device with a design power in the catalogue", label))
    each = int(room.capacity.max())
    count = spec.nodes_per_row or len(room.capacity)
    row_of = (np.arange(len(room.capacity)) // count).astype(np.int64)
    nodes = np.bincount(row_of).astype(np.float64)
    devices = np.bincount(row_of, room.capacity.astype(np.float64))
    design = devices * device.tdp_w + nodes * spec.beside_devices
    gain = 1.0 + spec.beside_devices * (1.0 - spec.beside_constant) / (device.tdp_w * each)
    idle = gain * devices * room.idle_w + nodes * spec.beside_devices * spec.beside_constant
    limit = np.full(len(nodes), spec.limit) if spec.limit is not None else design / (1.0 + (spec.oversubscribed or 0.0))
    if (limit <= idle).any():
        row = int(np.argmax(idle - limit))
        rule = f"leaves a row {limit[row]:,.0f} W, and without a job it draws {idle[row]:,.0f} W"
        field, value = ("limit", spec.limit) if spec.limit is not None else ("oversubscribed", spec.oversubscribed)
        raise BadInput(Problem(f"jobs.power.{field}", rule, value))
    mean, peak, speed, simulated = _by_clock(spec, jobs, room, times, folder)
    levels = np.zeros(len(jobs)) if jobs.priority is None else jobs.priority
    return JobPower(
        spec=spec,
        row_of=row_of,
        limit_w=np.asarray(limit, np.float64),
        idle_w=idle,
        gain=gain,
        device_idle_w=room.idle_w,
        mean_w=mean,
        peak_w=peak,
        speed=speed,
        high=(levels >= spec.high_priority).astype(np.int64),
        simulated=simulated,
    )


def _by_clock(
    spec: PowerSpec, jobs: Jobs, room: Room, times: StepTimes, folder: Path
) -> tuple[Floats, Floats, Floats, int]:
    """Mean and peak watts of a device of each job and its speed at each clock, and how many were simulated."""
    label, part = next(iter(times.kinds().items()))
    idle, n = room.idle_w or 0.0, len(jobs)
    own = np.full(n, np.nan) if jobs.watts is None else jobs.watts
    own = np.where(np.isnan(own), room.busy_w or 0.0, own)
    device = device_of(part)
    found = coefficients(_ANY_FRAMEWORK, device)
    caps = [cap_of_lock(device, found, lock) for lock in spec.clocks]
    clock = np.minimum(np.array(caps) / caps[0], 1.0)
    speed = np.tile(clock, (n, 1))
    mean = idle + (own[:, None] - idle) * clock
    peak = mean.copy()
    known: dict[tuple[str, int], list[Step]] = {}
    simulated = 0
    for j, name in enumerate(jobs.scenarios):
        size = int(jobs.devices[j])
        layout = packed(label, size, part.devices_per_node) if name else None
        if layout is None:
            continue
        if (name, size) not in known:
            known[name, size] = [times.step(folder / name, layout, lock) for lock in spec.clocks]
        steps = known[name, size]
        if steps[0].watts <= 0:
            continue
        simulated += 1
        mean[j] = [step.watts for step in steps]
        peak[j] = [step.busy_watts for step in steps]
        speed[j] = [min(steps[0].seconds / step.seconds, 1.0) for step in steps]
    return mean, peak, speed, simulated
