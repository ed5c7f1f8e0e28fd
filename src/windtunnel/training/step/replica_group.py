"""Model replicas that do the same at the same time: one plan, one schedule, and the rates of each stage's devices."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats, Rows
from windtunnel.cost.coefficients import Coefficients
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.program.comm_work import CommWork
from windtunnel.schedules.table import InstructionTable
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.training.data_parallel.comm_costs import DataParallelComm
from windtunnel.training.offload.memory_tiers import host_memory_bytes_per_s
from windtunnel.training.stage_costs.stage_costs import StageCosts
from windtunnel.training.step.pipeline_p2p import p2p_work


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaGroup:
    """Model replicas that do the same at the same time, over p pipeline stages and K virtual stages.

    Abstract: `UniformReplicas` run on one kind of devices, `CrossGroupPipeline` on several.
    """

    stages: StageCosts
    schedule: InstructionTable
    plan: ResolvedPlan
    cluster: ClusterSpec
    coefficients: Coefficients
    comm: DataParallelComm

    @property
    @abstractmethod
    def capacity(self) -> Floats:
        """(p, 5): SM share, HBM, scale-up, scale-out and host memory bytes/s of one device of each stage."""

    @abstractmethod
    def hops(self, source: Rows, target: Rows) -> CommWork:
        """Activations or their gradients from pipeline stages `source` to stages `target`."""

    @abstractmethod
    def optimizer_seconds(self, stage_of: Rows) -> Floats:
        """(p,): seconds of each stage's optimizer update.

        Args:
            stage_of: (K,): pipeline stage of each virtual stage.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class UniformReplicas(ReplicaGroup):
    """Model replicas on one kind of devices."""

    @property
    def capacity(self) -> Floats:
        """(p, 5): rates of the one kind of device, for every stage."""
        cluster = self.cluster
        rates = [
            1.0,
            cluster.device.memory_bytes_per_s,
            cluster.scale_up.bytes_per_s,
            cluster.nic_bytes_per_s_per_device,
            host_memory_bytes_per_s(cluster),
        ]
        return np.tile(np.array(rates), (self.schedule.p, 1))

    def hops(self, source: Rows, target: Rows) -> CommWork:
        """Hops over the cluster's own network."""
        return p2p_work(self.stages, self.plan, self.cluster, source, target)

    def optimizer_seconds(self, stage_of: Rows) -> Floats:
        """(p,): seconds of the update on this kind of device."""
        return self.comm.optimizer_seconds(self.coefficients, stage_of, self.schedule.p)
