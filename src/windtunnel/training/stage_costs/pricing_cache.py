"""Networks and priced blocks that the steps of many plans share, so that a search prices each kind of block once.

A step is the same with and without the cache: its key holds every field of a plan that can change the price of a
block. Fields that only the pipeline, data parallelism or offloading read declare so (`block_prices` of
`specs.switches.Switch`); a field counts until its declaration says that it does not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from windtunnel.graph import Batch, ModelGraph
from windtunnel.network.coefficients import NetworkCoefficients
from windtunnel.network.groups import GroupPlacement
from windtunnel.network.model import NetworkModel
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.program.comm_work import CommWork
from windtunnel.program.segment import Segment, SegmentTime
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.plan import CarriedSwitches, Overlap, PlanSpec
from windtunnel.specs.switches import switches_of
from windtunnel.specs.workload import TrainingSpec
from windtunnel.techniques.base import Applied

_UNREAD = {
    switch.resolved_as or name
    for record in (PlanSpec, Overlap, TrainingSpec)
    for name, switch in switches_of(record).items()
    if not switch.block_prices
}
"""Fields of a resolved plan that no block reads, or that act on blocks through values that are in the key anyway."""
_NAMES = tuple(f.name for f in fields(ResolvedPlan) if f.name not in {*_UNREAD, "switches"})
_CARRIED = tuple(name for name, switch in switches_of(CarriedSwitches).items() if switch.block_prices)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockCost:
    """Seconds, work and bytes of one block kind on one rank, for one micro-batch."""

    forward: SegmentTime
    backward: SegmentTime
    weight: SegmentTime
    kept_bytes: dict[str, float]
    """Activation kind → bytes that are kept from forward to backward of a micro-batch."""
    transient_backward_bytes: float
    """Most bytes that backward holds next to what forward kept."""
    dense_params: float
    """Parameters on this rank outside experts."""
    expert_params: float
    """Parameters of experts on this rank."""
    largest_weights: dict[tuple[float, float], float]
    """Shape of each distinct dense weight → its elements on this rank."""
    segments: tuple[int, int, int] = (0, 0, 0)
    """Indices of the block's segments F, B, W in `StageCosts.segments`."""

    def time(self, direction: int) -> SegmentTime:
        """Time of the segment of one direction (0 F, 1 B, 2 W)."""
        return (self.forward, self.backward, self.weight)[direction]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSum:
    """The sum of the blocks of a virtual stage; most virtual stages of a plan share one."""

    work: CommWork
    """(3,) seconds and work of F, B, W of a micro-batch."""
    busy: tuple[dict[str, float], ...]
    """For F, B, W: class of time → seconds."""
    flop: list[float]
    """FLOPs of a micro-batch by block and direction, to be added in this order."""
    kept: dict[str, float]
    """Activation kind → bytes that are kept from forward to backward."""
    dense: float
    """Parameters on this rank outside experts."""
    expert: float
    """Parameters of experts on this rank."""
    transient: float
    """Most bytes that backward of a block holds next to what forward kept."""
    shapes: dict[tuple[float, float], float]
    """Shape of each distinct dense weight → its elements on this rank."""

    @classmethod
    def of(cls, uses: Sequence[tuple[BlockCost, float]]) -> BlockSum:
        """The sum of blocks, each with the number of times that a micro-batch runs it."""
        work = CommWork(*(np.zeros(3) for _ in range(5)))
        busy: tuple[dict[str, float], ...] = ({}, {}, {})
        flop: list[float] = []
        kept: defaultdict[str, float] = defaultdict(float)
        dense = expert = transient = 0.0
        shapes: dict[tuple[float, float], float] = {}
        for cost, number in uses:
            for d in range(3):
                t = cost.time(d)
                figures = (t.total_s, t.up_bytes, t.out_bytes, t.sm_s, t.hbm_bytes)
                for column, value in zip(work.columns, figures, strict=True):
                    column[d] += number * value
                flop.append(number * t.flop)
                for tag, value in t.busy_s.items():
                    busy[d][tag] = busy[d].get(tag, 0.0) + number * value
            for kind, value in cost.kept_bytes.items():
                kept[kind] += number * value
            dense += number * cost.dense_params
            expert += number * cost.expert_params
            if number:
                transient = max(transient, cost.transient_backward_bytes)
                shapes |= cost.largest_weights
        return cls(
            work=work,
            busy=busy,
            flop=flop,
            kept=dict(kept),
            dense=dense,
            expert=expert,
            transient=transient,
            shapes=shapes,
        )


@dataclass(frozen=True, slots=True)
class PricedBlocks:
    """The priced block kinds of a model under one way of cutting it. They are shared: do not change them."""

    graph: ModelGraph
    batch: Batch
    costs: dict[str, BlockCost]
    plain: dict[str, BlockCost]
    segments: tuple[Segment, ...]
    times: tuple[SegmentTime, ...]


class PricingCache:
    """Networks with the seconds that they computed, priced blocks, and sums over virtual stages."""

    def __init__(self) -> None:
        self._seen: list[Any] = []
        self._networks: dict[Hashable, NetworkModel] = {}
        self._blocks: dict[Hashable, PricedBlocks] = {}
        self.stage_costs: dict[Hashable, Any] = {}
        """Blocks and their split over virtual stages → `StageCosts`, whose mesh each reader replaces by its own."""

    def _number(self, thing: Any) -> int:
        """The number of a value, the same for equal values; values are kept alive so that identities stay theirs."""
        for i, other in enumerate(self._seen):
            if other is thing:
                return i
        for i, other in enumerate(self._seen):
            if type(other) is type(thing) and other == thing:
                return i
        self._seen.append(thing)
        return len(self._seen) - 1

    def network(
        self,
        cluster: ClusterSpec,
        params: NetworkCoefficients,
        named: tuple[tuple[str, str], ...] = (),
        software: str | None = None,
    ) -> NetworkModel:
        """The network of a cluster under some coefficients; `named` and `software` as `NetworkModel` has them."""
        key = self._number(cluster), self._number(params), named, software
        if key not in self._networks:
            self._networks[key] = NetworkModel(cluster, params, named, software)
        return self._networks[key]

    def blocks(
        self,
        specs: Sequence[Any],
        plan: ResolvedPlan,
        groups: dict[str, GroupPlacement],
        copies: tuple[float, float],
        techniques: Sequence[Applied],
        split_backward: bool,
        price: Callable[[], PricedBlocks],
    ) -> PricedBlocks:
        """Blocks of a plan, priced by `price` where no equal plan was priced before.

        Args:
            specs: Model, cluster, training, coefficients, behaviour.
            plan: The plan with nothing left open.
            groups: Placement of each of the plan's communication groups.
            copies: Bytes per parameter that FSDP copies forward and backward.
            techniques: Techniques that act on the step.
            split_backward: Whether the schedule has instructions of their own for weight gradients.
            price: Prices the blocks.
        """
        again = plan.recompute
        key = (
            *(self._number(x) for x in specs),
            *(getattr(plan, name) for name in _NAMES),
            *(getattr(plan.switches, name) for name in _CARRIED),
            again.policy,
            again.modules,
            again.early_stop,
            again.keep_collectives,
            again.num_layers is None,
            plan.m > 1,
            copies,
            split_backward,
            tuple(
                (name, *(float(getattr(place, field)) for field in GroupPlacement.__slots__))
                for name, place in groups.items()
            ),
            tuple((t.technique.id, repr(sorted(t.knobs.items()))) for t in techniques),
        )
        if key not in self._blocks:
            self._blocks[key] = price()
        return self._blocks[key]
