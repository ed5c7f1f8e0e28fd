"""How fast jobs run that name a scenario: steps simulated on the devices that a job gets, packed and spread."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from windtunnel import catalog
from windtunnel.arrays import Floats
from windtunnel.clusters.jobs import Jobs
from windtunnel.cost.clock import cap_of_lock, idle_w
from windtunnel.cost.coefficients import coefficients
from windtunnel.errors import BadInput, Problem, WindtunnelError
from windtunnel.specs.cluster import ClusterRef, MixedClusterRef
from windtunnel.specs.device import DeviceSpec
from windtunnel.specs.scenario import Scenario

_MOST_PROBLEMS = 20


@dataclass(frozen=True, slots=True)
class Layout:
    """Devices of a job on nodes of one kind of the room."""

    kind: str
    nodes: int
    each: int


@dataclass(frozen=True, slots=True)
class Step:
    """A simulated step."""

    seconds: float
    watts: float
    """Mean of one device; 0: not known."""
    busy_watts: float
    """The same without the seconds in which a stage waits for another one or for the exchange of gradients."""


_WAITS = ("bubble", "exposed pp", "exposed dp", "exposed offload")
"""Classes of time of a step in which a device idles long enough for a meter to see it."""


@dataclass(slots=True)
class StepTimes:
    """Seconds of a step, and watts of a device in it, by scenario and layout, each simulated once."""

    cluster: str | ClusterRef | MixedClusterRef
    known: dict[tuple[str, Layout, float], Step] = field(default_factory=dict)

    def kinds(self) -> dict[str, ClusterRef]:
        """The room's kinds of devices, each as a cluster to cut a job's part from."""
        groups = self.cluster.groups if isinstance(self.cluster, MixedClusterRef) else (self.cluster,)
        refs = [_as_ref(group) for group in groups]
        return {_label(ref): ref for ref in refs}

    def step(self, file: Path, layout: Layout, lock: float = 1.0) -> Step:
        """One step.

        Args:
            file: training scenario.
            layout: of its devices.
            lock: of the clock, a share of the highest one.

        Raises:
            BadInput: the scenario, or what its plan asks of the devices.
            Infeasible: the scenario does not fit them.
        """
        at = str(file), layout, lock
        if at not in self.known:
            self.known[at] = self._simulated(file, layout, lock)
        return self.known[at]

    def _simulated(self, file: Path, layout: Layout, lock: float) -> Step:
        from windtunnel.scenarios.load import load_scenario
        from windtunnel.training.predict import simulate_training

        scenario = load_scenario(file)
        part = self.kinds()[layout.kind].model_copy(
            update={"nodes": layout.nodes, "devices_per_node": layout.each, "scale_up_domain": None}
        )
        if lock < 1.0 and scenario.training is not None:
            part = _locked(part, scenario.training.framework, lock)
        plan = scenario.plan.model_copy(update={"dp": "auto"})
        own: Scenario = scenario.model_copy(update={"cluster": part, "plan": plan, "jobs": None})
        result = simulate_training(own, sensitivities=False)
        seconds, watts = float(result.step_time_s), float(result.mean_power_w)
        idle = idle_w(device_of(part))
        waits = sum(result.breakdown.get(name, 0.0) for name in _WAITS) / sum(result.breakdown.values())
        return Step(seconds, watts, idle + (watts - idle) / max(1.0 - waits, 1e-3) if watts > 0 else 0.0)


def device_of(part: ClusterRef) -> DeviceSpec:
    """The device of a part of the room.

    Raises:
        BadInput: the catalogue does not know it.
    """
    return part.device if isinstance(part.device, DeviceSpec) else catalog.device(part.device)


def _locked(part: ClusterRef, framework: str, lock: float) -> ClusterRef:
    """The part with the cap of power that leaves the rate of a locked clock."""
    device = device_of(part)
    cap = cap_of_lock(device, coefficients(framework, device), lock)
    return part.model_copy(update={"power_cap_w": min(cap, part.power_cap_w or cap)})


def packed(kind: str, devices: int, per_node: int) -> Layout | None:
    """Devices in equal numbers on the fewest nodes; None: they do not divide so."""
    fewest = -(-devices // per_node)
    return _even(kind, devices, per_node, fewest)


def spread(kind: str, devices: int, per_node: int) -> Layout | None:
    """Devices in equal numbers on twice the fewest nodes, or as few more as divide them; None: one device."""
    if devices == 1:
        return None
    return _even(kind, devices, per_node, min(2 * -(-devices // per_node), devices))


def _even(kind: str, devices: int, per_node: int, fewest: int) -> Layout | None:
    for nodes in range(fewest, devices + 1):
        if devices % nodes == 0 and devices // nodes <= per_node:
            return Layout(kind, nodes, devices // nodes)
    return None


def with_simulated_speeds(jobs: Jobs, times: StepTimes, folder: Path) -> Jobs:
    """Jobs whose scenario says how long they take, how much slower they are spread, and how fast on other kinds.

    `work_s` of a job with `steps` is their time on the room's first kind of devices, packed.

    Args:
        jobs: some of which name a scenario.
        times: of steps on the room's devices.
        folder: what the files' names are relative to.

    Raises:
        BadInput: scenarios that cannot be simulated on as many devices, each with the first line that asks for it.
    """
    if not any(jobs.scenarios):
        return jobs
    kinds = times.kinds()
    first = next(iter(kinds))
    work, spread_speed = jobs.work_s.copy(), np.full(len(jobs), np.nan)
    watts = np.full(len(jobs), np.nan) if jobs.watts is None else jobs.watts.copy()
    speed = np.ones((len(jobs), len(kinds)))
    problems: list[Problem] = []
    refused: set[tuple[str, int]] = set()
    for j, name in enumerate(jobs.scenarios):
        size = int(jobs.devices[j])
        if not name or (name, size) in refused:
            continue
        try:
            own = _speeds_of(times, folder / name, size)
        except WindtunnelError as error:
            refused.add((name, size))
            line = None if jobs.lines is None else int(jobs.lines[j])
            rule = f"cannot run on {size} devices of {first}: {str(error).strip().splitlines()[0]}"
            problems.append(Problem("scenario", rule, name, file=jobs.file, line=line))
            continue
        if jobs.steps is not None and np.isfinite(jobs.steps[j]):
            work[j] = jobs.steps[j] * own.step_s
        spread_speed[j], speed[j] = own.spread, own.by_kind
        if np.isnan(watts[j]) and own.watts > 0:
            watts[j] = own.watts
    if problems:
        raise BadInput(problems[:_MOST_PROBLEMS])
    estimate = jobs.estimate_s
    if estimate is not None:
        estimate = np.where(np.isfinite(estimate), estimate, work)
    count = len({(name, int(size)) for name, size in zip(jobs.scenarios, jobs.devices, strict=True) if name})
    why = "steps and their watts simulated on the room's devices; spread: on twice the fewest nodes"
    note = ("jobs.scenario", f"{count} scenarios and sizes", why)
    return replace(
        jobs,
        work_s=work,
        estimate_s=estimate,
        spread_speed=spread_speed,
        watts=None if np.isnan(watts).all() else watts,
        kind_speed=speed,
        notes=(*jobs.notes, note),
    )


@dataclass(frozen=True, slots=True)
class _Speeds:
    step_s: float
    spread: float
    by_kind: Floats
    watts: float


def _speeds_of(times: StepTimes, file: Path, size: int) -> _Speeds:
    kinds = times.kinds()
    step: list[Step] = []
    for kind, ref in kinds.items():
        near = packed(kind, size, ref.devices_per_node)
        if near is None:
            rule = f"do not divide evenly over nodes of {ref.devices_per_node}"
            raise BadInput(Problem("num_gpus", rule, size))
        step.append(times.step(file, near))
    first, ref = next(iter(kinds.items()))
    far = spread(first, size, ref.devices_per_node)
    apart = step[0] if far is None else times.step(file, far)
    seconds = np.array([one.seconds for one in step])
    return _Speeds(seconds[0], min(seconds[0] / apart.seconds, 1.0), seconds[0] / seconds, step[0].watts)


def _label(ref: ClusterRef) -> str:
    return ref.device if isinstance(ref.device, str) else ref.device.id


def _as_ref(cluster: str | ClusterRef) -> ClusterRef:
    """A catalogue cluster with its fields written out."""
    if isinstance(cluster, ClusterRef):
        return cluster
    found = catalog.cluster(cluster)
    same = ("device", "nodes", "devices_per_node", "scale_up", "scale_out", "host_memory_bytes", "storage")
    return ClusterRef(**{name: getattr(found, name) for name in same}, power_cap_w=found.power_cap_w)
