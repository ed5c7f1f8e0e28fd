"""Model replicas whose consecutive stages run on groups of unlike devices: every figure from the group of its stage."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats, Rows
from windtunnel.network.coefficients import NetworkCoefficients
from windtunnel.network.groups import placement
from windtunnel.network.model import NetworkModel
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.training.data_parallel.comm_costs import DataParallelComm
from windtunnel.training.stage_costs.pricing_cache import PricingCache
from windtunnel.training.stage_costs.stage_costs import StageCosts
from windtunnel.training.step.pipeline_p2p import hop_seconds
from windtunnel.training.step.replica_tasks import ReplicaGroup


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

    def network(self, group: int, parts: StageCosts) -> NetworkModel:
        """The network between groups, seen from one of them."""
        side = self.sides[group]
        return self.cache.network(side, replace(parts.network.params, out=NetworkCoefficients.for_cluster(side).out))


def joined_stage_costs(split: StagePlacement, parts: list[StageCosts]) -> StageCosts:
    """Virtual stages, each with the costs of its own group; what does not differ is the first group's."""

    def columns(name: str) -> Floats:
        return split.pick(split.of_part, [getattr(one, name) for one in parts])

    first, last = parts[split.of_part[0]], parts[split.of_part[-1]]
    busy = [[parts[g].busy_s[d][k] for k, g in enumerate(split.of_part.tolist())] for d in range(3)]
    joined: StageCosts = replace(
        first,
        busy_s=busy,
        head_s=last.head_s,
        embedding_s=first.embedding_s,
        kept_bytes=[parts[g].kept_bytes[k] for k, g in enumerate(split.of_part.tolist())],
        seconds=columns("seconds"),
        sm_s=columns("sm_s"),
        hbm_bytes=columns("hbm_bytes"),
        up_bytes=columns("up_bytes"),
        out_bytes=columns("out_bytes"),
        transient_bytes=columns("transient_bytes"),
    )
    return joined


def stage_costs_of_group(split: StagePlacement, group: int, parts: StageCosts, ranks: int) -> StageCosts:
    """One group's view: work of other groups' stages is none of its own."""
    mine = split.of_part == group
    flop = sum(
        number * sum(parts.segment_times[i].flop for i in segments)
        for k in np.flatnonzero(mine)
        for segments, number in parts.uses[k]
    )
    hbm, up, out = (np.where(mine, work, 0.0) for work in (parts.hbm_bytes, parts.up_bytes, parts.out_bytes))
    return replace(parts, hardware_flop=flop * ranks, hbm_bytes=hbm, up_bytes=up, out_bytes=out)


class CrossGroupComm(DataParallelComm):
    """Data-parallel traffic inside each stage's group."""

    def __init__(self, split: StagePlacement, groups: list[DataParallelComm], parts: StageCosts) -> None:
        first = groups[0]
        super().__init__(parts, first.plan, first.cluster, first.training, first.behaviour, first.options)
        self.split, self.groups = split, groups

    def _of_groups(self, method: str, pieces: npt.ArrayLike) -> list[Floats]:
        found = [getattr(one, method)(pieces) for one in self.groups]
        return [self.split.pick(self.split.of_part, list(column)) for column in zip(*found, strict=True)]

    def reduce(self, pieces: npt.ArrayLike) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """See `DataParallelComm.reduce`."""
        t, up, out, sm, hbm = self._of_groups("reduce", pieces)
        return t, up, out, sm, hbm

    def gather(self, pieces: npt.ArrayLike, *, again: bool = False) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """See `DataParallelComm.gather`; levels are refused here, so that both directions are alike."""
        t, up, out, sm, hbm = self._of_groups("gather", pieces)
        return t, up, out, sm, hbm

    def between_slices(self, pieces: npt.ArrayLike) -> tuple[Floats, Floats]:
        """See `DataParallelComm.between_slices`."""
        seconds, out = self._of_groups("between_slices", pieces)
        return seconds, out

    def tied_seconds(self, p: int) -> float:
        """Between the first and the last group; the slower side sets the pace."""
        own = self.stages.graph.embedding.params / self.plan.tp * self.options.grad_bytes
        seconds = 0.0
        for g in (0, len(self.groups) - 1):
            domain = self.split.sides[g].scale_up_domain
            network = self.split.network(g, self.groups[g].stages)
            seconds = max(seconds, float(network.collective("all_reduce", own, placement(2, domain, domain)).alone_s))
        return seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossGroupPipeline(ReplicaGroup):
    """Replicas whose stages are on several groups. Fields are the first group's, parts those of all."""

    split: StagePlacement
    members: tuple[ReplicaGroup, ...]
    """The same replicas as each group would run all of them."""

    @property
    def capacity(self) -> Floats:
        """(p, 4): each stage's own group's."""
        return np.stack([x.capacity for x in self.members])[self.split.of_stage, np.arange(self.schedule.p)]

    def hops(self, source: Rows, target: Rows) -> tuple[Floats, Floats, Floats]:
        """Inside a group over its network, else over the network between groups; the slower side sets the pace."""
        here, there = self.split.of_stage[source], self.split.of_stage[target]
        seconds, up, out = (np.zeros(len(source)) for _ in range(3))
        for g, x in enumerate(self.members):
            inside = (here == g) & (there == g)
            first = self.split.first[g]
            if inside.any():
                own = hop_seconds(x.stages, x.plan, x.cluster, source[inside] - first, target[inside] - first)
                seconds[inside], up[inside], out[inside] = own
            touched = ((here == g) | (there == g)) & ~inside
            if touched.any():
                outward = replace(x.stages, network=self.split.network(g, x.stages))
                apart = np.array([0]), np.array([x.cluster.num_devices])  # any two stages in different domains
                took, _, sent = hop_seconds(outward, x.plan, x.cluster, *apart)
                seconds[touched] = np.maximum(seconds[touched], took[0])
                if not self.split.own_ports:
                    out[touched & (here == g)] = sent[0]
        return seconds, up, out

    def optimizer_seconds(self, stage_of: Rows) -> Floats:
        """Each stage's own group's, shape (p,)."""
        return self.split.pick(self.split.of_stage, [x.optimizer_seconds(stage_of) for x in self.members])
