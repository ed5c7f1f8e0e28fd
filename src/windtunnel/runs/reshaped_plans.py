"""Step time with nodes missing where any plan can load a checkpoint: the best plan for the nodes that are left."""

from __future__ import annotations

import math

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.errors import BadInput
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.scenario import Scenario

_SIMULATED = 3
"""Numbers of missing nodes whose plans are simulated; between them the throughput of a node is interpolated."""


_KEPT: dict[tuple[str, tuple[str, ...]], float | None] = {}
"""Seconds of steps that this process has simulated, by scenario and settings; None where they do not fit."""


def reshaped_plans(
    scenario: Scenario, plan: ResolvedPlan, cluster: ClusterSpec, *, step_time_s: float, least: float
) -> Floats:
    """Factor on step time with 0, 1, 2 … nodes missing, shape (D + 1,); tensor parallelism stays in the node.

    Tried are the pipeline's own depth and those next to it that divide as many layers, with as many replicas as the
    nodes hold; the batch is the smallest that they divide and that is no smaller than the scenario's.

    Args:
        scenario: What is trained.
        plan: Its resolved plan.
        cluster: Its cluster.
        step_time_s: The step with all nodes.
        least: Share of the nodes below which the job waits.
    """
    most = min(math.floor((1.0 - least) * cluster.nodes), cluster.nodes - 1)
    chosen = sorted({*np.linspace(1, most, min(_SIMULATED, most)).round().astype(int).tolist()}) if most else []
    known, rates = [0], [1.0]  # of a node, over that of a node when all are there
    for missing in chosen:
        found = _best_s(scenario, plan, cluster, cluster.nodes - missing)
        if found is not None:
            known.append(missing)
            rates.append(step_time_s / found * cluster.nodes / (cluster.nodes - missing))
    if len(known) == 1:
        return np.ones(1)
    counts = np.arange(known[-1] + 1)
    left = (cluster.nodes - counts) / cluster.nodes
    return np.maximum.accumulate(1.0 / (np.interp(counts, known, rates) * left))


def in_proportion(nodes: int, least: float) -> Floats:
    """`reshaped_plans` without simulations: a plan for fewer nodes has the throughput of a node that all have.

    Args:
        nodes: Of the job.
        least: Share of the nodes below which it waits.
    """
    most = min(math.floor((1.0 - least) * nodes), nodes - 1)
    return nodes / (nodes - np.arange(most + 1.0))


def _best_s(scenario: Scenario, plan: ResolvedPlan, cluster: ClusterSpec, nodes: int) -> float | None:
    """Seconds of the whole batch under the fastest of the plans tried; None where none fits."""
    devices, batch = nodes * cluster.devices_per_node, plan.m * plan.dp * plan.mbs
    best: float | None = None
    for pp in sorted({max(plan.pp // 2, 1), plan.pp, 2 * plan.pp}):
        replicas = devices // (plan.tp * plan.cp * pp)
        used = replicas * plan.tp * plan.cp * pp / cluster.devices_per_node
        if replicas < 1 or used != int(used):
            continue
        own = replicas * plan.mbs * math.ceil(batch / (replicas * plan.mbs))
        settings = (
            f"cluster.nodes={int(used)}",
            f"training.global_batch={own}",
            f"plan.dp={replicas}",
            f"plan.pp={pp}",
        )
        key = (scenario.model_dump_json(exclude={"run"}), settings)
        if key not in _KEPT:
            _KEPT[key] = _step_s(scenario, settings)
        found = _KEPT[key]
        if found is not None and (best is None or found < best):
            best = found
    return best


def _step_s(scenario: Scenario, settings: tuple[str, ...]) -> float | None:
    """Seconds of a step under other settings; None where the plan does not fit."""
    from windtunnel.training.predict import simulate_training

    try:
        found = simulate_training(scenario, overrides=settings, sensitivities=False)
    except BadInput:
        return None
    return found.step_time_s if found.memory_fits else None
