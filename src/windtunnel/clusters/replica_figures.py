"""What one replica of a serving fleet holds, sustains and draws: its scenario simulated on the cluster's devices."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.clusters.scenario_speeds import packed
from windtunnel.errors import BadInput, Infeasible, Problem
from windtunnel.serving.autoscale.start_up import start_up
from windtunnel.serving.deployment import Deployment, prepare
from windtunnel.serving.results.serving_result import ServingResult
from windtunnel.serving.sweeps.load_sweep import holds, loaded, serve_once
from windtunnel.specs.autoscale import AutoscaleSpec
from windtunnel.specs.cluster import ClusterRef
from windtunnel.specs.scenario import Scenario

SEEDS = 3
"""Draws of the traffic that the rate is simulated with."""
CLOSE = 0.02
"""Loads that hold and that do not are this close, as a share, when a search ends."""
_STEPS_OUT = 20
"""Times that a search doubles or halves its load."""
_PARTS = (0.1, 0.25, 0.5, 0.75)
"""Of the sustained rate, at which watts are simulated next to those of the search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFigures:
    """One replica on the cluster's devices."""

    name: str
    """Of its scenario."""
    devices: int
    rate_per_s: float
    """Requests a second at which it meets its objective: the median of `SEEDS` draws of the traffic."""
    low_per_s: float
    high_per_s: float
    """Least load that held and greatest that did not, of all draws."""
    start_up_s: float
    """From its start until it answers."""
    load_per_s: Floats
    watts: Floats
    """Mean of one device at those loads, rising; empty: not known."""
    assumed: tuple[tuple[str, str, str], ...] = ()
    dropped: tuple[str, ...] = ()
    """Sections of the scenario that a fleet does not read."""

    def watts_at(self, load_per_s: Floats) -> Floats | None:
        """Mean watts of a device of a replica that gets that load; None: not known."""
        if not len(self.watts):
            return None
        found: Floats = np.interp(load_per_s, self.load_per_s, self.watts)
        return found


def replica_figures(file: Path, room: ClusterRef, label: str) -> ReplicaFigures:
    """Simulate one replica of a scenario.

    Args:
        file: serving scenario; its `cluster` and `autoscale` are not read.
        room: nodes and devices of the cluster.
        label: kind of device of the cluster.

    Raises:
        BadInput: the scenario, or what it asks of the cluster's devices.
        Infeasible: the model does not fit, or no load meets the objective.
    """
    from windtunnel.scenarios.load import load_scenario

    return _simulated(load_scenario(file).model_dump_json(exclude_unset=True), room.model_dump_json(), label)


@lru_cache(maxsize=64)
def _simulated(scenario_json: str, room_json: str, label: str) -> ReplicaFigures:
    import json

    from windtunnel.scenarios.load import load_scenario

    scenario, room = load_scenario(json.loads(scenario_json)), ClusterRef.model_validate_json(room_json)
    d = _one_replica(scenario, room, label)
    edges = [_edge(_seeded(d, k)) for k in range(SEEDS)]
    rate = sorted(edge.below for edge in edges)[SEEDS // 2]
    loads, watts = _watts(d, rate, edges[0].met)
    instance = d.pools[0].instance
    plan = d.pools[0].spec.plan
    found = start_up(AutoscaleSpec(min=1, max=1, target=1), instance.capacity.weights_bytes * plan.num_devices)
    return ReplicaFigures(
        name=scenario.name,
        devices=_devices(d),
        rate_per_s=rate,
        low_per_s=min(edge.below for edge in edges),
        high_per_s=max(edge.above for edge in edges),
        start_up_s=found.seconds,
        load_per_s=loads,
        watts=watts,
        assumed=found.assumed,
        dropped=() if scenario.serving is None or scenario.serving.autoscale is None else ("serving.autoscale",),
    )


def _one_replica(scenario: Scenario, room: ClusterRef, label: str) -> Deployment:
    """One instance of the only pool, or all pools of several, on the fewest nodes of the cluster."""
    serving = scenario.serving
    if serving is None:
        raise BadInput(Problem("serving", "is required: a fleet's scenario is one of `windtunnel serve`"))
    if serving.traffic.trace is not None:
        rule = "is not simulated in a fleet, whose load is `load`; write lengths (input_tokens, output_tokens)"
        raise BadInput(Problem("serving.traffic.trace", rule, serving.traffic.trace))
    pools = serving.pools
    if len(pools) == 1:
        pools = (pools[0].model_copy(update={"replicas": 1}),)
    serving = serving.model_copy(update={"autoscale": None, "pools": pools})
    scenario = scenario.model_copy(update={"serving": serving, "cluster": room, "jobs": None})
    devices = _devices(prepare(scenario))
    layout = packed(label, devices, room.devices_per_node)
    if layout is None:
        raise BadInput(Problem("num_devices", f"do not divide evenly over nodes of {room.devices_per_node}", devices))
    size = {"nodes": layout.nodes, "devices_per_node": layout.each, "scale_up_domain": None}
    part = room.model_copy(update=size)
    return prepare(scenario.model_copy(update={"cluster": part}))


def _devices(d: Deployment) -> int:
    return int(sum(pool.spec.replicas * pool.spec.plan.num_devices for pool in d.pools))


def _seeded(d: Deployment, k: int) -> Deployment:
    traffic = d.serving.traffic.model_copy(update={"seed": d.serving.traffic.seed + k})
    return replace(d, serving=d.serving.model_copy(update={"traffic": traffic}))


@dataclass(frozen=True, slots=True)
class _Edge:
    below: float
    """Greatest load found that holds."""
    above: float
    """Least load found above it that does not."""
    met: dict[float, ServingResult]
    """Runs that hold, by load."""


def _edge(d: Deployment) -> _Edge:
    """Bisect the load that one replica sustains."""
    met: dict[float, ServingResult] = {}

    def good(load: float) -> bool:
        result = serve_once(loaded(d, "rate", load))
        if holds(result):
            met[load] = replace(result, table={}, record=None)
        return load in met

    start = d.serving.traffic.rate_per_s or 1.0
    below, above = (start, 0.0) if good(start) else (0.0, start)
    for _ in range(_STEPS_OUT):
        if below and above:
            break
        tried = 2 * below if below else above / 2
        below, above = (tried, above) if good(tried) else (below, tried)
    if not above:
        rule = f"meet the objective of `serving.slo` at every load up to {below:.3g} a second: the traffic needs more"
        raise BadInput(Problem("serving.traffic.num_requests", rule, d.serving.traffic.num_requests))
    if not below:
        raise Infeasible("no load of one replica meets the objective of `serving.slo`", f"{above:.3g} a second")
    while above - below > CLOSE * below:
        middle = math.sqrt(below * above)
        below, above = (middle, above) if good(middle) else (below, middle)
    return _Edge(below, above, met)


def _watts(d: Deployment, rate: float, met: dict[float, ServingResult]) -> tuple[Floats, Floats]:
    """Mean watts of a device against load, from idle to the sustained rate."""
    runs = dict(met) | {rate * part: serve_once(loaded(d, "rate", rate * part)) for part in _PARTS}
    points = [(load, run.power.get("mean_w_per_device")) for load, run in sorted(runs.items())]
    idle = next(iter(runs.values())).power.get("idle_w")
    if idle is None or any(watts is None for _, watts in points):
        return np.zeros(0), np.zeros(0)
    points = [(0.0, idle), *points]
    loads, watts = (np.array(column, np.float64) for column in zip(*points, strict=True))
    return loads, np.maximum.accumulate(watts)
