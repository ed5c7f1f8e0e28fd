"""Step time with replicas missing: the same plan on fewer nodes, the batch over the replicas that are left."""

from __future__ import annotations

import math

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.errors import BadInput
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.scenario import Scenario

SIMULATED = 4
"""Numbers of missing replicas whose steps are simulated; between them the time of one micro-batch is interpolated."""
SIMULATED_OF_SPOT = 16
"""The same for a spot fleet, which is seldom whole."""
_KEPT: dict[tuple[str, tuple[str, ...]], float | None] = {}
"""Seconds of steps that this process has simulated on fewer nodes, by scenario and settings."""


def nodes_per_replica(plan: ResolvedPlan, cluster: ClusterSpec) -> int:
    """Nodes that one data-parallel replica spans; 1 where a node holds several."""
    return max(-(-plan.tp * plan.pp * plan.cp // cluster.devices_per_node), 1)


def replicas_per_unit(plan: ResolvedPlan, cluster: ClusterSpec) -> int:
    """Replicas that go together when a node is lost: those that the node holds."""
    return max(cluster.devices_per_node // (plan.tp * plan.pp * plan.cp), 1)


def degraded_steps(
    scenario: Scenario,
    plan: ResolvedPlan,
    cluster: ClusterSpec,
    *,
    step_time_s: float,
    least: float,
    simulated: int = SIMULATED,
) -> Floats:
    """Factor on step time with 0, 1, 2 … units of replicas missing, shape (D + 1,).

    A step keeps its batch: the replicas that are left take up the micro-batches of those that are not, the fullest one
    more than the others.

    Args:
        scenario: What is trained.
        plan: Its resolved plan.
        cluster: Its cluster.
        step_time_s: The step with all replicas.
        least: Share of the replicas below which the job waits.
        simulated: Numbers of missing units whose steps are simulated at most.
    """
    unit = replicas_per_unit(plan, cluster)
    units = plan.dp // unit
    most = max(units - max(math.ceil(least * units), 1), 0)
    counts = np.arange(most + 1)
    micro_batches = np.array([_micro_batches(plan, plan.dp - d * unit) for d in counts.tolist()], np.float64)
    chosen = sorted({*np.linspace(1, most, min(simulated, most)).round().astype(int).tolist()}) if most else []
    known, seconds = [0], [step_time_s / micro_batches[0]]
    for missing in chosen:
        found = _step_s(scenario, plan, cluster, missing, int(micro_batches[missing]), unit)
        if found is not None:
            known.append(missing)
            seconds.append(found / micro_batches[missing])
    return np.asarray(np.interp(counts, known, seconds) * micro_batches / step_time_s, np.float64)


def by_micro_batches(plan: ResolvedPlan, cluster: ClusterSpec, least: float) -> Floats:
    """`degraded_steps` without simulations: steps as long as the micro-batches of the fullest replica are many."""
    unit = replicas_per_unit(plan, cluster)
    units = plan.dp // unit
    most = max(units - max(math.ceil(least * units), 1), 0)
    many = [_micro_batches(plan, plan.dp - missing * unit) for missing in range(most + 1)]
    return np.array(many, np.float64) / many[0]


def _micro_batches(plan: ResolvedPlan, replicas: int) -> int:
    """Micro-batches of the fullest replica when `replicas` are left."""
    return -(-plan.m * plan.dp // replicas)


def _step_s(
    scenario: Scenario, plan: ResolvedPlan, cluster: ClusterSpec, missing: int, micro_batches: int, unit: int
) -> float | None:
    """Seconds of a step on the nodes that are left; None where the plan cannot be laid over them."""
    from windtunnel.training.predict import simulate_one_of_many

    replicas = plan.dp - missing * unit
    nodes = cluster.nodes - missing * nodes_per_replica(plan, cluster)
    settings = (
        f"cluster.nodes={nodes}",
        f"training.global_batch={replicas * micro_batches * plan.mbs}",
        f"plan.dp={replicas}",
    )
    key = (scenario.model_dump_json(exclude={"run"}), settings)
    if key not in _KEPT:
        try:
            _KEPT[key] = simulate_one_of_many(scenario, overrides=settings).step_time_s
        except BadInput:
            _KEPT[key] = None
    return _KEPT[key]
