"""Model replicas that do the same at the same time, and where their tasks are in a step program."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats, Rows
from windtunnel.cost.coefficients import Coefficients
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.schedules.table import InstructionTable
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.training.data_parallel.comm_costs import DataParallelComm
from windtunnel.training.offload.memory_tiers import host_memory_bytes_per_s
from windtunnel.training.stage_costs.stage_costs import StageCosts
from windtunnel.training.step.data_parallel_tasks import FinalReductions
from windtunnel.training.step.forward_backward_overlap import OverlappedPair
from windtunnel.training.step.pipeline_p2p import hop_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaGroup:
    """Model replicas that do the same at the same time: one plan on one kind of devices. p stages."""

    stages: StageCosts
    schedule: InstructionTable
    plan: ResolvedPlan
    cluster: ClusterSpec
    coefficients: Coefficients
    traffic: DataParallelComm

    @property
    def capacity(self) -> Floats:
        """(p, 5): SM share, HBM, scale-up, scale-out and host memory bytes/s of one device of each stage."""
        c = self.cluster
        rates = [
            1.0,
            c.device.memory_bytes_per_s,
            c.scale_up.bytes_per_s,
            c.nic_bytes_per_s_per_device,
            host_memory_bytes_per_s(c),
        ]
        return np.tile(np.array(rates), (self.schedule.p, 1))

    def hops(self, source: Rows, target: Rows) -> tuple[Floats, Floats, Floats]:
        """Seconds, scale-up and scale-out bytes of hops between stages."""
        return hop_seconds(self.stages, self.plan, self.cluster, source, target)

    def optimizer_seconds(self, stage_of: Rows) -> Floats:
        """Optimizer update per stage, shape (p,)."""
        return self.traffic.optimizer_seconds(self.coefficients, stage_of, self.schedule.p)


@dataclass(slots=True, kw_only=True)
class ReplicaTasks:
    """Where the tasks of some replicas are."""

    replicas: ReplicaGroup
    first_stage: int
    first_id: int
    """Ids below count from here."""
    kind: Rows
    part: Rows
    row: Rows
    """Of each piece."""
    first_task: Rows
    last_task: Rows
    compute: Rows
    stage_of: Rows
    finish: list[list[int]]
    """Per stage: tasks that the optimizer waits for."""
    reduced: FinalReductions | None
    pair_of: Rows | None = None
    """Of each instruction; see `StepProgram`."""
    pairs: tuple[OverlappedPair, ...] = ()
