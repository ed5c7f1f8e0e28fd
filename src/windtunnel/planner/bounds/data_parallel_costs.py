"""What does not depend on blocks: data-parallel traffic, the optimizer, weights, from the simulator's own functions."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.cost.coefficients import Coefficients
from windtunnel.cost.framework_defaults import Behaviour
from windtunnel.network.groups import Mesh, placement
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.planner.bounds.block_costs import Cell
from windtunnel.planner.bounds.pipeline_shape import Pipe, plan_of
from windtunnel.planner.space.candidates import Candidates, Policy
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.workload import TrainingSpec
from windtunnel.techniques.base import Applied
from windtunnel.training.data_parallel.comm_costs import DataParallelComm, GroupComm
from windtunnel.training.memory.static_memory import static_memory
from windtunnel.training.stage_costs.pricing_cache import PricingCache
from windtunnel.training.stage_costs.stage_costs import StageCosts
from windtunnel.training.step.offload_tasks import copied_weights, least_rate
from windtunnel.training.step_setup import options_of

LASTING = ("weights", "gradients", "optimizer")
"""Kinds of static memory that are there at every peak."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What all candidates share."""

    model: ModelSpec
    cluster: ClusterSpec
    training: TrainingSpec
    techniques: tuple[Applied, ...]
    behaviour: Behaviour
    coefficients: Coefficients
    known: PricingCache = field(default_factory=PricingCache, compare=False, repr=False)
    """Networks and blocks that bounds and simulations share."""
    phases: tuple[tuple[float, Case], ...] = ()
    """Of a run whose steps differ: share of the steps, and the case, of each phase."""

    rewritten: dict[Hashable, tuple[PlanSpec, PlanSpec | None]] = field(default_factory=dict, compare=False, repr=False)
    """Candidates that have been through the techniques → what they share, and the plan (`planner.rewritten`)."""

    @property
    def kinds_of_steps(self) -> tuple[tuple[float, Case], ...]:
        """Share of every kind of step, the steps that no phase claims first."""
        left = 1.0 - sum(share for share, _ in self.phases)
        return ((left, replace(self, phases=())), *self.phases)

    def on(self, cluster: ClusterSpec, *, anew: bool) -> Case:
        """The same on another cluster; `anew`: nothing that was priced holds there."""
        known = PricingCache() if anew else self.known
        phases = tuple((share, case.on(cluster, anew=anew)) for share, case in self.phases)
        return replace(self, cluster=cluster, known=known, phases=phases, rewritten={})


@dataclass(frozen=True, slots=True)
class Held:
    """What one way to cut a model keeps, and how its parts sit in the pipeline."""

    cell: Cell | None
    """The cell of micro-batch 1; None where the simulator refuses it."""
    pipe: Pipe | None
    kept_bytes: Floats
    """(S,)."""


@dataclass(frozen=True, slots=True)
class Sent:
    """Data-parallel work of one way to cut weights, under one policy. S stages."""

    before_s: float
    """Before the first instruction of stage 0."""
    reduce_s: Floats
    """(S,): after a stage's last backward."""
    stream_s: Floats
    """(2, 2S): least seconds of each transfer stream: once a step, and for each micro-batch."""
    last_s: float
    """After the optimizer."""
    tied_s: float = 0.0
    """After the first stage's last backward: the sum of an embedding that the ends share."""


class Tails:
    """What does not depend on blocks, of one way to cut weights: kept under the switches that it depends on."""

    def __init__(
        self,
        case: Case,
        x: Candidates,
        row: int,
        held: Held,
        policies: list[Policy],
        known: dict[Hashable, Any],
        name: Hashable,
        spread: int,
    ) -> None:
        """Note what they are about.

        Args:
            case: What all candidates share.
            x: The candidates.
            row: A layout of this kind.
            held: What it keeps.
            policies: Those that are asked for.
            known: Answers so far.
            name: What tells this way to cut weights from others.
            spread: Where replicas sit.
        """
        self.case, self.x, self.row, self.held, self.policies = case, x, row, held, policies
        self.known, self.name, self.spread = known, name, spread
        self.stages = int(x.pp[row])

    def _traffic(self, j: int) -> tuple[DataParallelComm, ResolvedPlan, StageCosts, Pipe]:
        c, cell, pipe = self.case, self.held.cell, self.held.pipe
        assert cell is not None and pipe is not None
        plan = plan_of(cell.plan, self.x, self.row, self.policies[j], c.behaviour)
        parts = self._weights(plan)
        options = options_of(c.training, plan, c.behaviour, c.coefficients, c.techniques)
        return GroupComm(parts, plan, c.cluster, c.training, c.behaviour, options), plan, parts, pipe

    def static(self, j: int, key: Hashable) -> Floats:
        """(S,): bytes that are there at every peak, under policy j."""
        at = ("static", self.name, key)
        if at not in self.known:
            total = np.zeros(self.stages)
            if self.held.cell is not None:
                c = self.case
                _, plan, parts, pipe = self._traffic(j)
                kinds = static_memory(parts, plan, c.training, c.behaviour, pipe.stage_of).by_kind
                total = sum((kinds[name] for name in LASTING if name in kinds), total)
            self.known[at] = total
        found: Floats = self.known[at]
        return found

    def sent(self, j: int, key: Hashable) -> Sent:
        """Data-parallel traffic under policy j."""
        at = ("sent", self.name, self.spread, key)
        if at not in self.known:
            s = self.stages
            result = Sent(0.0, np.zeros(s), np.zeros((2, 2 * s)), 0.0)
            if self.held.cell is not None:
                traffic, plan, parts, pipe = self._traffic(j)
                if traffic.size > 1 and plan.levels is None and plan.local_steps is None:
                    result = self._data_parallel(traffic, plan, parts, pipe)
                if parts.graph.tied and s > 1:
                    result = replace(result, tied_s=traffic.tied_seconds(s))
            self.known[at] = result
        found: Sent = self.known[at]
        return found

    def weights_in(self, j: int, key: Hashable) -> tuple[Floats, Floats]:
        """(K,) each, under policy j: seconds that weights of one pass take from host memory; most pieces of a pass."""
        at = ("copies", self.name, key)
        if at not in self.known:
            result = np.zeros(0), np.zeros(0)
            if self.held.cell is not None:
                traffic, plan, parts, pipe = self._traffic(j)
                pieces = np.maximum(np.asarray(pipe.layers, np.float64), traffic.bucket_counts())
                seconds = copied_weights(parts, plan) / least_rate(plan.offload, self.case.cluster)
                result = seconds, pieces
            self.known[at] = result
        found: tuple[Floats, Floats] = self.known[at]
        return found

    def update(self, j: int, key: Hashable) -> float:
        """Seconds of the slowest stage's optimizer under policy j."""
        at = ("update", self.name, key)
        if at not in self.known:
            seconds = 0.0
            if self.held.cell is not None:
                traffic, _, _, pipe = self._traffic(j)
                took = traffic.optimizer_seconds(self.case.coefficients, pipe.stage_of, self.stages)
                seconds = float(took.max())
            self.known[at] = seconds
        return float(self.known[at])

    def _weights(self, plan: ResolvedPlan) -> StageCosts:
        """What traffic and memory need to know of a model cut one way."""
        cell, pipe, c = self.held.cell, self.held.pipe, self.case
        assert cell is not None and pipe is not None
        mesh = Mesh(
            {"tp": plan.tp, "cp": plan.cp, "dp": plan.dp, "pp": plan.pp},
            tuple(a for a in plan.order if a != "ep"),
            c.cluster,
        )
        parts = replace(
            cell.parts,
            dense_params=pipe.depth @ cell.dense_params,
            expert_params=pipe.depth @ cell.expert_params,
            layers=np.asarray(pipe.layers, np.int32),
            mesh=mesh,
            dp_place=mesh.placement("cp", "dp"),
            expert_dp_place=placement(max(plan.expert_dp, 1), plan.ep * plan.etp, c.cluster.scale_up_domain),
            dummy_wgrad_bytes=np.zeros(plan.pp),
        )
        if parts.graph.tied and plan.pp > 1:
            parts.dense_params[-1] += plan.padded_vocab * c.model.hidden_size / plan.tp
        return parts

    def _data_parallel(self, traffic: DataParallelComm, plan: ResolvedPlan, parts: StageCosts, pipe: Pipe) -> Sent:
        """What travels before, beside and after the instructions of a step."""
        options = traffic.options
        s, first = plan.pp, np.full(plan.pp, -1)
        for k in range(len(pipe.stage_of) - 1, -1, -1):
            first[pipe.stage_of[k]] = k
        if plan.zero == 3:
            pieces = np.maximum(parts.layers, 1)
            gather, scatter = traffic.gather(pieces).seconds, traffic.reduce(pieces).seconds
            again = plan.reshard_after_forward  # gathered for backward too, but for the layer that turns around
            each_g = gather * (2 * pieces - 1 if again else 0 * pieces)
            once_g = gather * (0 * pieces if again else pieces)
            every = options.sync_every_micro_batch and again
            total_r = scatter * pieces
            stream = np.array(
                [[once_g, 0 * total_r if every else total_r], [each_g, total_r if every else 0 * total_r]]
            )
            of = pipe.stage_of
            sums = [[np.bincount(of, weights=w, minlength=s) for w in row] for row in stream]
            return Sent(float(gather[0]), scatter[first], np.array(sums).reshape(2, 2 * s), 0.0)
        buckets = traffic.bucket_counts()
        last, stream = 0.0, np.zeros((2, 2 * s))
        if options.overlap_grad_reduce:
            each = traffic.reduce(buckets).seconds
            reduce_s = each[first]
            total = np.bincount(pipe.stage_of, weights=each * buckets, minlength=s)  # one bucket after the other
            stream[int(options.reduce_every_micro_batch), s:] = total
        else:
            reduce_s = np.bincount(pipe.stage_of, weights=traffic.reduce(1.0).seconds, minlength=s)
        before = float(traffic.gather(buckets).seconds[0]) if traffic.gather_at_start else 0.0
        if plan.zero in (1, 2) and not traffic.gather_at_start and self.case.behaviour.shard_optimizer:
            last = float(np.bincount(pipe.stage_of, weights=traffic.gather_seconds(), minlength=s).min())
        return Sent(before, reduce_s, stream, last)
