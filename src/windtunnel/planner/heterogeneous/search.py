"""The best plan on a heterogeneous cluster: which axis crosses them, and how batch or layers are shared.

Candidates are taken in the order of lower bounds, from bounds that know little and stand for many to those of one way
to share (`heterogeneous.bounds`): the layers of a layout at the joint rate of all groups; the slowest group's layers;
all that a group walks through. A bound is refined when it comes first, and a plan simulated when its full bound does.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

import numpy as np

from windtunnel.arrays import Floats, Ints, Mask
from windtunnel.errors import BadInput
from windtunnel.parallel.plan_sizes import default_split
from windtunnel.planner.case import Case
from windtunnel.planner.deadline import Deadline
from windtunnel.planner.heterogeneous.bounds import alone_walk, held_bytes, joint_walks
from windtunnel.planner.heterogeneous.space import Layout, MixedSpace, group_of_parts
from windtunnel.planner.search.branch_and_bound import Proof
from windtunnel.specs.cluster import MixedCluster
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.workload import TrainingSpec
from windtunnel.training.heterogeneous.prepare_groups import GroupStep, replica_classes, staged_replicas
from windtunnel.training.prepare_step import prepare
from windtunnel.training.simulate_step import memory_of, run
from windtunnel.training.step.cross_group_reduction import CrossGroupNetwork
from windtunnel.training.step.cross_group_stages import CrossGroupPipeline
from windtunnel.training.step_setup import StepRequest

Report = Callable[[int, float, float], None]
"""Called with plans simulated, the best so far and the bound of the next."""


@dataclass(frozen=True, slots=True)
class Tried:
    """One simulated candidate."""

    layout: int
    plan: PlanSpec
    bound_s: float
    step_time_s: float
    reserved_bytes: float | None
    """Reserved memory of the fullest group; None where a plan that fits is faster."""
    fits: bool | None


@dataclass(slots=True)
class MixedFound:
    """What a search has found."""

    best: Tried | None = None
    tried: list[Tried] = field(default_factory=list)


_IDEAL, _CHEAP, _FULL = range(3)
"""How much a bound knows: of a layout, its layers shared without loss; of groups along pp, the slowest group's layers;
everything."""


@dataclass(slots=True)
class _Frontier:
    """A search under way: bounds in their order, what was found, and what was ruled out."""

    chosen: list[Ints]
    """Ways to share of each layout that are searched."""
    queue: list[tuple[float, int, int, int]] = field(default_factory=list)
    """Bound in seconds, how much it knows, layout, way to share (−1: all of them); a heap."""
    found: MixedFound = field(default_factory=MixedFound)
    best_s: float = np.inf
    no_room: int = 0
    refused: int = 0
    complete: bool = True

    def push(self, before_s: float, bound_s: float, knows: int, layout: int, row: int) -> None:
        """Queue a refined bound, which is no less than the one before; an infinite one is a refusal."""
        if np.isfinite(bound_s):
            heapq.heappush(self.queue, (max(before_s, bound_s), knows, layout, row))
        else:
            self.refused += 1

    def proof(self) -> Proof:
        """What became of every candidate."""
        count, simulated = sum(len(rows) for rows in self.chosen), len(self.found.tried)
        left = count - self.no_room - self.refused - simulated
        return Proof(
            candidates=count,
            pruned_by_memory=self.no_room,
            pruned_by_limit={},
            pruned_by_bound=left if self.complete else 0,
            simulated=simulated,
            refused=self.refused,
            open=0 if self.complete else left,
            objective="step_time",
            best=self.best_s,
            next_bound=self.queue[0][0] if self.queue else np.inf,
            best_s=self.best_s,
            complete=self.complete,
        )


class MixedSearch:
    """Bounds and simulations of one space; what is known is kept between searches of its parts."""

    def __init__(self, case: Case, space: MixedSpace, memory_fraction: float) -> None:
        assert isinstance(case.cluster, MixedCluster)
        self.case, self.space, self.fraction = case, space, memory_fraction
        self.cluster = case.cluster
        self.capacity = [g.device.memory_bytes * memory_fraction for g in self.cluster.groups]
        self._kept: dict[Hashable, Floats] = {}
        self._model_s: dict[Hashable, tuple[float, ...]] = {}
        self._parts: dict[int, list[GroupStep]] = {}
        self._bounds: dict[int, Floats] = {}
        self._full: dict[tuple[int, int], float] = {}

    def _lay(
        self, plan: PlanSpec, training: TrainingSpec
    ) -> tuple[list[GroupStep], CrossGroupNetwork | CrossGroupPipeline]:
        """What each group runs, and what holds the groups together."""
        c = self.case
        request = StepRequest(
            model=c.model,
            cluster=self.cluster,
            training=training,
            plan=plan,
            techniques=c.techniques,
            cache=c.cache,
        )
        if plan.group_axis == "dp":
            return replica_classes(request)
        staged, parts = staged_replicas(request)
        return parts, staged

    def _any_share(self, x: Layout) -> tuple[PlanSpec, TrainingSpec]:
        """A plan that stands for all ways to share, as far as blocks go, and a batch that it can train on."""
        if x.plan.group_axis == "pp":
            return x.plan, self.case.training
        most = x.shares.max(axis=0).tolist() if x.plan.zero == 3 and x.plan.pp > 1 else [2 * x.plan.pp] * len(x.parts)
        batch = x.plan.mbs * sum(r * n for r, n in zip(x.parts, most, strict=True))
        training = self.case.training.model_copy(update={"global_batch": batch})
        return x.plan.model_copy(update={"batch_shares": tuple(most)}), training

    def ideal(self, x: Layout) -> float:
        """Seconds of all micro-batches' layers if they could be shared without loss; infinite where it is refused."""
        p = x.plan
        key = (p.tp, p.cp, p.ep, p.etp, p.mbs, x.policy, p.pp > 1, p.group_axis, p.zero == 3 and (p.pp, p.vpp))
        if key not in self._model_s:
            try:
                parts = self._lay(*self._any_share(x))[0]
                self._model_s[key] = tuple(_least_s(part) for part in parts)
            except BadInput:  # of this layout: another with the same blocks may run
                return 0.0
        each = self._model_s[key]
        devices = [g.num_devices / (p.tp * p.cp) for g in self.cluster.groups]
        quanta = self.case.training.global_batch / p.mbs
        seconds = quanta / sum(n / one for n, one in zip(devices, each, strict=True))
        if p.group_axis == "dp" and p.pp > 1:
            # a group's last stage runs m micro-batches of its parts, and one comes down to it and goes up again
            depth = len(self.case.model.layer_kinds())
            ends = {"embedding": p.embedding_as_layer, "loss": p.loss_as_layer}
            least = min(p.stage_layers or default_split(depth, p.pp * p.vpp, **ends)) / depth
            rate = sum(r / (one * least) for r, one in zip(x.parts, each, strict=True))
            seconds = max(seconds, (quanta * p.vpp + (p.pp - 1) * sum(x.parts)) / rate if least else 0.0)
        return seconds

    def least(self, i: int) -> float:
        """Smallest bound of a layout, as far as it was looked at."""
        return float(self._bounds[i].min()) if i in self._bounds else self.ideal(self.space.layouts[i])

    def bounds(self, i: int) -> Floats:
        """Bounds of all ways to share of one layout; infinite where a rule takes it out."""
        if i not in self._bounds:
            x = self.space.layouts[i]
            try:
                plan, training = self._any_share(x)
                self._parts[i], held = self._lay(plan, training)
            except BadInput:
                self._bounds[i] = np.full(len(x.shares), np.inf)
                return self._bounds[i]
            out = np.zeros(len(x.shares))
            if isinstance(held, CrossGroupNetwork):
                walks = joint_walks([part.replicas for part in self._parts[i]], held)
                for g, walk in enumerate(walks):
                    values, of = np.unique(x.shares[:, g], return_inverse=True)
                    out = np.maximum(out, walk.seconds(values)[of])
            else:
                depth = len(self.case.model.layer_kinds())
                for g, part in enumerate(self._parts[i]):
                    out = np.maximum(out, x.m * _least_s(part) / depth * x.shares[:, g] / x.parts[g])
            self._bounds[i] = out
        return self._bounds[i]

    def _written(self, i: int, row: int) -> PlanSpec:
        x = self.space.layouts[i]
        along = None if x.plan.group_axis == "dp" else group_of_parts(self._parts[i][0].replicas.schedule, x.parts)
        return x.written(row, along)

    def _whole(self, i: int, row: int) -> float:
        """The full bound of one way to give layers; infinite where it is refused."""
        if (i, row) not in self._full:
            try:
                _, staged = self._lay(self._written(i, row), self.case.training)
            except BadInput:
                return np.inf
            assert isinstance(staged, CrossGroupPipeline)
            self._full[i, row] = float(alone_walk(staged).seconds(np.array([self.space.layouts[i].m]))[0])
        return self._full[i, row]

    def _has_room(self, i: int, row: int) -> bool:
        """Whether every group may hold its part, by what lasts and what blocks keep."""
        x = self.space.layouts[i]
        p = x.plan
        parts, held = self._parts[i], None
        if p.group_axis == "pp":
            parts, held = self._lay(self._written(i, row), self.case.training)
        for g, part in enumerate(parts):
            key = (g, p.tp, p.cp, p.ep, p.etp, p.mbs, p.pp > 1, p.vpp, x.policy, p.dp == 1)
            m = x.m or int(x.shares[row, g])
            needs, self._kept[key] = held_bytes(part, m, self._kept.get(key))
            mine = held.split.of_stage == g if isinstance(held, CrossGroupPipeline) else np.full(p.pp, True)
            if (needs[mine] > self.capacity[g]).any():
                return False
        return True

    def search(
        self,
        only: Callable[[Layout], Mask] | None = None,
        report: Report | None = None,
        deadline: Deadline | None = None,
    ) -> tuple[MixedFound, Proof]:
        """The fastest plan that fits, with the proof.

        Args:
            only: rows of a layout's shares to choose from; absent: all.
            report: see `Report`.
            deadline: when the search is left with the best plan so far, once there is one.

        Ctrl-C ends the search with what it has; the proof then says how far it got.
        """
        layouts = self.space.layouts
        chosen = [np.arange(len(x.shares)) if only is None else np.flatnonzero(only(x)) for x in layouts]
        state = _Frontier(chosen)
        try:
            state.queue = [(self.ideal(x), _IDEAL, i, -1) for i, x in enumerate(layouts) if len(chosen[i])]
            heapq.heapify(state.queue)
            while state.queue and state.queue[0][0] < state.best_s:
                if deadline is not None and deadline.passed and state.found.best is not None:
                    state.complete = False
                    break
                self._advance(state, report)
        except KeyboardInterrupt:
            state.complete = False
        return state.found, state.proof()

    def _advance(self, state: _Frontier, report: Report | None) -> None:
        """Refine the bound that comes first, or simulate its plan."""
        bound, knows, i, row = heapq.heappop(state.queue)
        if knows == _IDEAL:
            each, layout = self.bounds(i), self.space.layouts[i]
            next_one = _CHEAP if layout.m and layout.shares.any() else _FULL
            for r in state.chosen[i].tolist():
                state.push(bound, float(each[r]), next_one, i, r)
        elif knows == _CHEAP:
            state.push(bound, self._whole(i, row), _FULL, i, row)
        elif not self._has_room(i, row):
            state.no_room += 1
        else:
            entry = self._try(i, row, bound, state.best_s)
            if entry is None:
                state.refused += 1
                return
            state.found.tried.append(entry)
            if entry.fits and entry.step_time_s < state.best_s:
                state.found.best, state.best_s = entry, entry.step_time_s
            if report:
                report(len(state.found.tried), state.best_s, bound)

    def _try(self, i: int, row: int, bound: float, best_s: float) -> Tried | None:
        """One simulation; memory only where the time is the best so far."""
        c = self.case
        plan = self._written(i, row)
        try:
            step = prepare(c.model, c.cluster, c.training, plan, c.techniques, cache=c.cache)
        except BadInput:
            return None
        timeline = run(step)
        seconds = timeline.makespan_s
        reserved, fits = None, None
        if seconds < best_s:
            memory = memory_of(step, timeline)
            reserved = memory.peak_reserved_bytes
            fits = reserved <= memory.capacity_bytes * self.fraction and not memory.overfull
        return Tried(i, plan, bound, seconds, reserved, fits)


def even(x: Layout) -> Mask:
    """Ways to share that treat all groups alike: the same micro-batches a replica, or layers by number of stages."""
    parts = np.array(x.parts)
    if x.plan.group_axis == "dp":
        return np.asarray((x.shares == x.shares[:, :1]).all(axis=1))
    fair = x.shares.sum(axis=1, keepdims=True) * parts / parts.sum()
    return np.asarray((np.abs(x.shares - fair) < 1.0).all(axis=1))


def _least_s(part: GroupStep) -> float:
    """Seconds of one micro-batch through all layers if each were of the kind that takes least."""
    parts = part.step.stages
    kinds = set(parts.graph.depth)
    costs = [priced[k] for priced in (parts.costs, parts.plain) for k in kinds & {*priced}]
    return len(parts.graph.depth) * min(sum(cost.time(d).total_s for d in range(3)) for cost in costs)
