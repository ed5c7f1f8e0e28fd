"""How fast a job goes on without some of its nodes, by the policy of its recovery."""

from __future__ import annotations

import numpy as np

from windtunnel.runs.checkpoint.tier_seconds import WRITER_BYTES_PER_S
from windtunnel.runs.degraded_steps import SIMULATED, SIMULATED_OF_SPOT, degraded_steps, nodes_per_replica
from windtunnel.runs.reduced_pipelines import reduced_pipelines
from windtunnel.runs.reshaped_plans import FewerNodes, reshaped_plans
from windtunnel.specs.run import RunSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.training.results.training_result import TrainingResult
from windtunnel.training.step_setup import PreparedStep


def nodes_per_unit(run: RunSpec, prepared: PreparedStep) -> int:
    """Nodes that leave and come back together: those of a replica, or single ones."""
    member = prepared.members[0]
    return nodes_per_replica(member.plan, member.cluster) if run.recovery.policy in ("restart", "shrink") else 1


def slower_by_missing(run: RunSpec, scenario: Scenario, prepared: PreparedStep, step: TrainingResult) -> FewerNodes:
    """Factor on step time with 0, 1, 2 … units missing; one entry where all are waited for."""
    recovery, member = run.recovery, prepared.members[0]
    if recovery.policy == "restart":
        return FewerNodes(np.ones(1))
    if recovery.policy == "shrink":
        slow = degraded_steps(
            scenario,
            member.plan,
            member.cluster,
            step_time_s=step.step_time_s,
            least=recovery.least_replicas,
            simulated=SIMULATED_OF_SPOT if run.spot else SIMULATED,
        )
        return FewerNodes(slow)
    if recovery.policy == "reshape":
        least = recovery.least_replicas
        return reshaped_plans(scenario, member.plan, member.cluster, step_time_s=step.step_time_s, least=least)
    layers = prepared.model.num_hidden_layers
    return FewerNodes(reduced_pipelines(member.plan, member.cluster, step, layers=layers, recovery=recovery))


def convert_s(run: RunSpec, size: float) -> float:
    """Seconds of converting a checkpoint of `size` bytes so that another plan can load it.

    Every byte is read and written once by the converting processes, and by the shared storage.
    """
    if run.recovery.policy != "reshape" or not run.recovery.convert_processes:
        return 0.0
    processes, spec = run.recovery.convert_processes * WRITER_BYTES_PER_S, run.checkpoint
    read = spec.storage_read_bytes_per_s or spec.storage_write_bytes_per_s or processes
    write = spec.storage_write_bytes_per_s or processes
    return size / min(processes, read) + size / min(processes, write)
