"""Replicas whose consecutive stages run on groups of different devices: every figure is that of its stage's group."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats, Rows
from windtunnel.network.coefficients import NetworkCoefficients
from windtunnel.network.groups import placement
from windtunnel.network.model import NetworkModel
from windtunnel.program.comm_work import CommWork
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.training.data_parallel.comm_costs import DataParallelComm
from windtunnel.training.stage_costs.pricing_cache import PricingCache
from windtunnel.training.stage_costs.stage_costs import StageCosts
from windtunnel.training.step.pipeline_p2p import p2p_work
from windtunnel.training.step.replica_group import ReplicaGroup


@dataclass(frozen=True, slots=True)
class StagePlacement:
    """How stages and virtual stages lie on groups."""

    of_stage: Rows
    """(p,): group of each stage, rising."""
    of_part: Rows
    """(K,): group of each virtual stage."""
    sides: tuple[ClusterSpec, ...]
    """Each group as the others see it."""
    own_ports: bool
    """Whether the network between groups has ports of its own."""
    cache: PricingCache = field(default_factory=PricingCache, compare=False, repr=False)
    """Networks that other steps of a search asked before."""

    @property
    def first(self) -> Rows:
        """First stage of each group."""
        return np.searchsorted(self.of_stage, np.arange(len(self.sides)))

    def pick(self, of: Rows, values: list[npt.NDArray[np.generic]]) -> Floats:
        """Along the last axis, each entry from the array of its group."""
        out: Floats = np.stack(values)[of, ..., np.arange(len(of))].T
        return out

    def network(self, group: int, stages: StageCosts) -> NetworkModel:
        """The network between groups, seen from one of them."""
        side = self.sides[group]
        return self.cache.network(side, replace(stages.network.params, out=NetworkCoefficients.for_cluster(side).out))


def joined_stage_costs(split: StagePlacement, groups: list[StageCosts]) -> StageCosts:
    """Virtual stages, each with the costs of its own group; what does not differ is the first group's.

    Args:
        split: Which group each stage is on.
        groups: Virtual stages as each group would run all of them.
    """
    of_part = split.of_part.tolist()
    first, last = groups[of_part[0]], groups[of_part[-1]]
    columns = zip(*(own.work.columns for own in groups), strict=True)
    joined: StageCosts = replace(
        first,
        busy_s=[[groups[g].busy_s[d][k] for k, g in enumerate(of_part)] for d in range(3)],
        head_s=last.head_s,
        embedding_s=first.embedding_s,
        kept_bytes=[groups[g].kept_bytes[k] for k, g in enumerate(of_part)],
        work=CommWork(*(split.pick(split.of_part, list(column)) for column in columns)),
        transient_bytes=split.pick(split.of_part, [own.transient_bytes for own in groups]),
    )
    return joined


def stage_costs_of_group(split: StagePlacement, group: int, stages: StageCosts, ranks: int) -> StageCosts:
    """One group's view: the bytes and FLOPs of other groups' virtual stages are none of its own."""
    mine = split.of_part == group
    flop = sum(
        number * sum(stages.segment_times[i].flop for i in segments)
        for k in np.flatnonzero(mine)
        for segments, number in stages.uses[k]
    )
    own = stages.work.where(mine)
    work = replace(own, seconds=stages.work.seconds, sm_seconds=stages.work.sm_seconds)
    return replace(stages, hardware_flop=flop * ranks, work=work)


class CrossGroupComm(DataParallelComm):
    """Data-parallel communication inside each stage's group."""

    def __init__(self, split: StagePlacement, groups: list[DataParallelComm], stages: StageCosts) -> None:
        first = groups[0]
        super().__init__(stages, first.plan, first.cluster, first.training, first.behaviour, first.options)
        self.split, self.groups = split, groups

    def _pick(self, works: list[CommWork]) -> CommWork:
        """Each virtual stage's work from its own group."""
        columns = zip(*(work.columns for work in works), strict=True)
        return CommWork(*(self.split.pick(self.split.of_part, list(column)) for column in columns))

    def reduce(self, pieces: npt.ArrayLike) -> CommWork:
        """One gradient bucket of each virtual stage, reduced inside its group."""
        return self._pick([group.reduce(pieces) for group in self.groups])

    def gather(self, pieces: npt.ArrayLike, *, for_backward: bool = False) -> CommWork:
        """One parameter bucket of each virtual stage; levels are refused here, so that both directions are alike."""
        return self._pick([group.gather(pieces) for group in self.groups])

    def between_slices(self, pieces: npt.ArrayLike) -> CommWork:
        """A bucket's all-reduce between replicas of its group where it goes tensor by tensor through hosts."""
        return self._pick([group.between_slices(pieces) for group in self.groups])

    def tied_seconds(self, p: int) -> float:
        """Between the first and the last group; the slower side sets the pace."""
        own = self.stages.graph.embedding.params / self.plan.tp * self.options.grad_bytes
        seconds = 0.0
        for group in (0, len(self.groups) - 1):
            domain = self.split.sides[group].scale_up_domain
            network = self.split.network(group, self.groups[group].stages)
            seconds = max(seconds, float(network.collective("all_reduce", own, placement(2, domain, domain)).alone_s))
        return seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossGroupPipeline(ReplicaGroup):
    """Replicas whose stages are on several groups. Fields are the first group's, virtual stages those of all."""

    split: StagePlacement
    members: tuple[ReplicaGroup, ...]
    """The same replicas as each group would run all of them."""

    @property
    def capacity(self) -> Floats:
        """(p, 5): rates of each stage's own group."""
        return np.stack([member.capacity for member in self.members])[self.split.of_stage, np.arange(self.schedule.p)]

    def hops(self, source: Rows, target: Rows) -> CommWork:
        """Inside a group over its network, else over the network between groups; the slower side sets the pace."""
        here, there = self.split.of_stage[source], self.split.of_stage[target]
        seconds, scale_up_bytes, scale_out_bytes = (np.zeros(len(source)) for _ in range(3))
        for group, member in enumerate(self.members):
            inside = (here == group) & (there == group)
            first = self.split.first[group]
            if inside.any():
                own = p2p_work(
                    member.stages, member.plan, member.cluster, source[inside] - first, target[inside] - first
                )
                seconds[inside] = own.seconds
                scale_up_bytes[inside], scale_out_bytes[inside] = own.scale_up_bytes, own.scale_out_bytes
            touched = ((here == group) | (there == group)) & ~inside
            if touched.any():
                outward = replace(member.stages, network=self.split.network(group, member.stages))
                apart = np.array([0]), np.array([member.cluster.num_devices])  # any two stages in different domains
                hop = p2p_work(outward, member.plan, member.cluster, *apart)
                seconds[touched] = np.maximum(seconds[touched], hop.seconds[0])
                if not self.split.own_ports:
                    scale_out_bytes[touched & (here == group)] = hop.scale_out_bytes[0]
        return CommWork.of(seconds, scale_up_bytes=scale_up_bytes, scale_out_bytes=scale_out_bytes)

    def optimizer_seconds(self, stage_of: Rows) -> Floats:
        """(p,): seconds of each stage's update on its own group."""
        return self.split.pick(self.split.of_stage, [member.optimizer_seconds(stage_of) for member in self.members])
