"""Costs that blocks do not decide: data-parallel traffic, the optimizer and weights, by the simulator's functions."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.network.groups import Mesh, placement
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.planner.bounds.block_costs import BlockCosts
from windtunnel.planner.bounds.pipeline_shape import Pipe, plan_of
from windtunnel.planner.case import Case
from windtunnel.planner.space.candidates import Candidates, Policy
from windtunnel.training.data_parallel.comm_costs import DataParallelComm, GroupComm
from windtunnel.training.memory.static_memory import reduce_buckets, static_memory
from windtunnel.training.stage_costs.stage_costs import StageCosts
from windtunnel.training.step.offload_tasks import copied_weights, least_rate
from windtunnel.training.step_setup import options_of

LASTING = ("weights", "gradients", "optimizer")
"""Kinds of static memory that are there at every peak."""


@dataclass(frozen=True, slots=True)
class KeptActivations:
    """Activations that one way to cut a model keeps, and how its parts sit in the pipeline."""

    costs: BlockCosts | None
    """Block costs at micro-batch 1; None where the simulator refuses the plan."""
    pipe: Pipe | None
    kept_bytes: Floats
    """(K,) bytes that each part keeps for one sequence of one micro-batch."""


@dataclass(frozen=True, slots=True)
class GradientComm:
    """Seconds of data-parallel communication of one way to cut weights, under one policy. S stages."""

    before_s: float
    """What stage 0 gathers before its first instruction."""
    reduce_s: Floats
    """(S,): what a stage reduces after its last backward."""
    stream_s: Floats
    """(2, 2S): least seconds of each transfer stream: once a step, and for each micro-batch."""
    last_s: float
    """What is gathered after the optimizer."""
    tied_s: float = 0.0
    """All-reduce of an embedding that both ends share, after the first stage's last backward."""


class DataParallelCosts:
    """Memory, traffic and optimizer time of one way to cut weights, each kept under the switches that it depends on."""

    def __init__(
        self,
        case: Case,
        candidates: Candidates,
        row: int,
        kept: KeptActivations,
        policies: list[Policy],
        known: dict[Hashable, Any],
        name: Hashable,
        spread: int,
    ) -> None:
        """Costs are computed when they are asked for.

        Args:
            case: What all candidates share.
            candidates: The candidates.
            row: A layout of this kind.
            kept: What it keeps.
            policies: The policies that are asked for; methods take an index into them.
            known: Costs that were computed so far.
            name: The key that tells this way to cut weights from others.
            spread: The code of where replicas sit.
        """
        self.case, self.candidates, self.row, self.held, self.policies = case, candidates, row, kept, policies
        self.known, self.name, self.spread = known, name, spread
        self.stages = int(candidates.pp[row])

    def _traffic(self, policy: int) -> tuple[DataParallelComm, ResolvedPlan, StageCosts, Pipe]:
        case, costs, pipe = self.case, self.held.costs, self.held.pipe
        assert costs is not None and pipe is not None
        plan = plan_of(costs.plan, self.candidates, self.row, self.policies[policy], case.behaviour)
        stage_costs = self._weights(plan)
        options = options_of(case.training, plan, case.behaviour, case.coefficients, case.techniques)
        return (
            GroupComm(stage_costs, plan, case.cluster, case.training, case.behaviour, options),
            plan,
            stage_costs,
            pipe,
        )

    def static(self, policy: int, key: Hashable) -> Floats:
        """(S,): bytes that are there at every peak, under one policy; `key` names what they depend on."""
        at = ("static", self.name, key)
        if at not in self.known:
            total = np.zeros(self.stages)
            if self.held.costs is not None:
                case = self.case
                _, plan, stage_costs, pipe = self._traffic(policy)
                kinds = static_memory(stage_costs, plan, case.training, case.behaviour, pipe.stage_of).by_kind
                total = sum((kinds[name] for name in LASTING if name in kinds), total)
            self.known[at] = total
        found: Floats = self.known[at]
        return found

    def bucket_bytes(self, policy: int, key: Hashable) -> float:
        """Bytes of the buckets that gradients are copied into, which exist through the whole step on every stage."""
        costs, case = self.held.costs, self.case
        if costs is None or not case.behaviour.reduce_bucket_params:
            return 0.0
        at = ("buckets", self.name, key)
        if at not in self.known:
            plan = plan_of(costs.plan, self.candidates, self.row, self.policies[policy], case.behaviour)
            self.known[at] = sum(float(size.min()) for size in reduce_buckets(plan, case.behaviour).values())
        found: float = self.known[at]
        return found

    def gradient_comm(self, policy: int, key: Hashable) -> GradientComm:
        """Data-parallel communication under one policy."""
        at = ("sent", self.name, self.spread, key)
        if at not in self.known:
            s = self.stages
            result = GradientComm(0.0, np.zeros(s), np.zeros((2, 2 * s)), 0.0)
            if self.held.costs is not None:
                traffic, plan, stage_costs, pipe = self._traffic(policy)
                if traffic.size > 1 and plan.levels is None and plan.local_steps is None:
                    result = self._data_parallel(traffic, plan, stage_costs, pipe)
                if stage_costs.graph.tied and s > 1:
                    result = replace(result, tied_s=traffic.tied_seconds(s))
            self.known[at] = result
        found: GradientComm = self.known[at]
        return found

    def weights_in(self, policy: int, key: Hashable) -> tuple[Floats, Floats]:
        """(K,) each, under one policy: seconds that weights of a pass take from host memory; most pieces of a pass."""
        at = ("copies", self.name, key)
        if at not in self.known:
            result = np.zeros(0), np.zeros(0)
            if self.held.costs is not None:
                traffic, plan, stage_costs, pipe = self._traffic(policy)
                pieces = np.maximum(np.asarray(pipe.layers, np.float64), traffic.bucket_counts())
                seconds = copied_weights(stage_costs, plan) / least_rate(plan.offload, self.case.cluster)
                result = seconds, pieces
            self.known[at] = result
        found: tuple[Floats, Floats] = self.known[at]
        return found

    def update(self, policy: int, key: Hashable) -> float:
        """Seconds of the slowest stage's optimizer under one policy."""
        at = ("update", self.name, key, self.spread if self.case.training.optimizer == "muon" else None)
        if at not in self.known:
            seconds = 0.0
            if self.held.costs is not None:
                traffic, _, _, pipe = self._traffic(policy)
                took = traffic.optimizer_seconds(self.case.coefficients, pipe.stage_of, self.stages)
                seconds = float(took.max())
            self.known[at] = seconds
        return float(self.known[at])

    def _weights(self, plan: ResolvedPlan) -> StageCosts:
        """The model cut one way, as the functions for traffic and memory ask for it."""
        costs, pipe, case = self.held.costs, self.held.pipe, self.case
        assert costs is not None and pipe is not None
        mesh = Mesh(
            {"tp": plan.tp, "cp": plan.cp, "dp": plan.dp, "pp": plan.pp},
            tuple(a for a in plan.order if a != "ep"),
            case.cluster,
        )
        stage_costs = replace(
            costs.stage_costs,
            dense_params=pipe.depth @ costs.dense_params,
            expert_params=pipe.depth @ costs.expert_params,
            layers=np.asarray(pipe.layers, np.int32),
            mesh=mesh,
            dp_place=mesh.placement("cp", "dp"),
            expert_dp_place=placement(max(plan.expert_dp, 1), plan.ep * plan.etp, case.cluster.scale_up_domain),
            dummy_wgrad_bytes=np.zeros(plan.pp),
        )
        if stage_costs.graph.tied and plan.pp > 1:
            stage_costs.dense_params[-1] += plan.padded_vocab * case.model.hidden_size / plan.tp
        return stage_costs

    def _data_parallel(
        self, traffic: DataParallelComm, plan: ResolvedPlan, stage_costs: StageCosts, pipe: Pipe
    ) -> GradientComm:
        """What travels before, next to and after the instructions of a step."""
        first = np.full(plan.pp, -1)  # the first part of each stage
        for k in range(len(pipe.stage_of) - 1, -1, -1):
            first[pipe.stage_of[k]] = k
        if plan.zero == 3:
            return _sharded_comm(traffic, plan, stage_costs, pipe, first)
        return _bucketed_comm(traffic, plan, pipe, first, gathers=self.case.behaviour.shard_optimizer)


def _sharded_comm(
    traffic: DataParallelComm, plan: ResolvedPlan, stage_costs: StageCosts, pipe: Pipe, first: Ints
) -> GradientComm:
    """ZeRO-3: every layer is gathered before its use and its gradients are scattered.

    Args:
        traffic: what data parallelism moves.
        plan: the resolved plan.
        stage_costs: the model parts, for their numbers of layers.
        pipe: how parts follow one another.
        first: (S,) the first part of each stage.
    """
    stages = plan.pp
    pieces = np.maximum(stage_costs.layers, 1)
    gather, scatter = traffic.gather(pieces).seconds, traffic.reduce(pieces).seconds
    gathered_twice = plan.reshard_after_forward  # for backward too, but for the layer that turns around
    each_g = gather * (2 * pieces - 1 if gathered_twice else 0 * pieces)
    once_g = gather * (0 * pieces if gathered_twice else pieces)
    every = traffic.options.sync_every_micro_batch and gathered_twice
    total_r = scatter * pieces
    stream = np.array([[once_g, 0 * total_r if every else total_r], [each_g, total_r if every else 0 * total_r]])
    sums = [[np.bincount(pipe.stage_of, weights=w, minlength=stages) for w in row] for row in stream]
    return GradientComm(float(gather[0]), scatter[first], np.array(sums).reshape(2, 2 * stages), 0.0)


def _bucketed_comm(
    traffic: DataParallelComm, plan: ResolvedPlan, pipe: Pipe, first: Ints, *, gathers: bool
) -> GradientComm:
    """Gradients reduced in buckets, and parameters gathered after the optimizer or before the next step.

    Args:
        traffic: what data parallelism moves.
        plan: the resolved plan.
        pipe: how parts follow one another.
        first: (S,) the first part of each stage.
        gathers: whether ranks that share the optimizer gather what the others updated.
    """
    stages, options = plan.pp, traffic.options
    buckets = traffic.bucket_counts()
    last, stream = 0.0, np.zeros((2, 2 * stages))
    if options.overlap_grad_reduce:
        each = traffic.reduce(buckets).seconds
        reduce_s = each[first]
        total = np.bincount(pipe.stage_of, weights=each * buckets, minlength=stages)  # one bucket after the other
        stream[int(options.reduce_every_micro_batch), stages:] = total
    else:
        reduce_s = np.asarray(
            np.bincount(pipe.stage_of, weights=traffic.reduce(1.0).seconds, minlength=stages), np.float64
        )
    before = float(traffic.gather(buckets).seconds[0]) if traffic.gather_at_start else 0.0
    if plan.zero in (1, 2) and not traffic.gather_at_start and gathers:
        last = float(np.bincount(pipe.stage_of, weights=traffic.gather_seconds(), minlength=stages).min())
    return GradientComm(before, reduce_s, stream, last)
