"""Lower bounds of step time and memory for all candidates at once.

Every second and byte comes from the simulator's own functions (cells, `Traffic`, `static_memory`); this module only
adds them up along paths that every simulation has to walk, so bound ≤ simulated by construction:

* a stage cannot start before the first micro-batch came through the shallower parts, runs all its instructions one
  after the other, and after its last backward the shallower parts still have to run theirs;
* what the framework does after the last backward (a reduction that does not overlap, the last bucket of one that does,
  the optimizer, a gather that is not deferred) follows the slowest stage;
* a stream that carries all parameter gathers, or all gradient reductions, takes at least their sum.

Tasks that run side by side can only slow each other down, so times of tasks that run alone are bounds. Memory is
bounded by weights, gradients and optimizer state and by what each layer still holds after its forward, for as many
micro-batches as the schedule keeps in flight.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from windtunnel import schedules
from windtunnel.cost.coefficients import Behaviour, Coefficients
from windtunnel.network.groups import Mesh, placement
from windtunnel.parallel.resolve import ResolvedPlan, chosen_schedule, default_split
from windtunnel.planner.cells import Cell, build_cell, depth_columns
from windtunnel.planner.space import Candidates, Policy
from windtunnel.schedules.table import InstructionTable
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.workload import TrainingSpec
from windtunnel.techniques.base import Applied
from windtunnel.techniques.step_options import StepOptions
from windtunnel.training.account import static_memory
from windtunnel.training.parts import Parts
from windtunnel.training.step import hop_crosses
from windtunnel.training.traffic import Traffic

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Case:
    """What all candidates share."""

    model: ModelSpec
    cluster: ClusterSpec
    training: TrainingSpec
    techniques: tuple[Applied, ...]
    behaviour: Behaviour
    coefficients: Coefficients


@dataclass(frozen=True, slots=True)
class Bounds:
    """Lower bounds of every cell of the grid, shape (N, P); infinite where a plan is not legal."""

    time_s: Floats
    memory_bytes: Floats
    cells: int
    """Distinct block costs that were needed."""


@dataclass(frozen=True, slots=True)
class _Pipe:
    """How a pipeline (pp, vpp, schedule, layer split) adds columns up. S stages, K parts, E columns."""

    stage_of: Ints
    depth: Floats
    """(K, E): columns of each part."""
    own: Floats
    """(S, E): columns of each stage."""
    before: Floats
    """(S, E): columns of the parts above a stage's first."""
    hops: Floats
    """(2, S): hops near and far from the first part down to a stage's first."""
    sends: Floats
    """(2, S): hops that a stage sends for each micro-batch."""
    layers: tuple[int, ...]
    split: bool


@dataclass(frozen=True, slots=True)
class _Path:
    """Compute path of one layout."""

    finish_s: Floats
    """(S,): earliest end of each stage's own instructions."""
    whole_s: float
    """Earliest end of all of them, and of what must follow on shallower stages."""


@dataclass(frozen=True, slots=True)
class _Held:
    """What one way to cut a model keeps, and how its parts sit in the pipeline."""

    cell: Cell | None
    """The cell of micro-batch 1; None where the simulator refuses it."""
    pipe: _Pipe | None
    kept_bytes: Floats
    """(S,)."""


@dataclass(frozen=True, slots=True)
class _Keys:
    """Which candidates share a cell, and which share weights."""

    layout: Ints
    weights: Ints
    blocks: list[Hashable]

    @classmethod
    def of(cls, x: Candidates) -> _Keys:
        """Keys of all layouts and policies."""
        plain_order = len({q.order for q in x.policies}) == 1 and x.policies[0].order[-1] == "pp"
        columns = [x.tp, x.cp, x.ep, x.etp, x.mbs, np.minimum(x.m, 2)]
        if any(q.zero == 3 for q in x.policies):  # unsharded copies are part of a block, once a step under a pipeline
            columns += [np.where(x.pp > 1, x.m, 0), np.minimum(x.dp * x.cp, 2)]
        if not plain_order:
            columns += [x.pp, x.dp]
        layout = np.unique(np.stack(columns), axis=1, return_inverse=True)[1].reshape(-1)
        sizes = [x.tp, x.cp, x.ep, x.etp, x.dp * x.cp > 1, x.pp > 1]
        weights = np.unique(np.stack(sizes), axis=1, return_inverse=True)[1].reshape(-1)
        return cls(layout, weights, [_block_key(q) for q in x.policies])

    def cell(self, row: int, policy: int) -> Hashable:
        """The cell of one candidate."""
        return int(self.layout[row]), self.blocks[policy]


@dataclass(frozen=True, slots=True)
class _After:
    """Data-parallel work of one way to cut weights, under one policy. Arrays (S,)."""

    before_s: float
    """Before the first instruction of stage 0."""
    reduce_s: Floats
    """After a stage's last backward."""
    stream_s: Floats
    """(2, 2S): least seconds of each transfer stream: once a step, and for each micro-batch."""
    end_s: float
    """Optimizer and what comes after."""
    static_bytes: Floats

    @classmethod
    def nothing(cls, stages: int) -> _After:
        """Where the simulator refuses the layout."""
        zero = np.zeros(stages)
        return cls(0.0, zero, np.zeros((2, 2 * stages)), 0.0, zero)


@dataclass(slots=True)
class Screener:
    """Bounds of candidates on one cluster; keeps what several calls can share."""

    case: Case
    capacity_bytes: float = float("inf")
    """Candidates whose memory bound is above need no time bound."""
    _cells: dict[Hashable, Cell | None] = field(default_factory=dict)

    def bounds(self, x: Candidates) -> Bounds:
        """Bounds of all candidates; the time bound is infinite where memory alone rules a plan out.

        Policies that share compute paths (blocks, schedule, hops) are taken together: what differs is data-parallel
        work and what is kept, which is added by broadcasting.
        """
        time_s, memory = np.full(x.legal.shape, np.inf), np.full(x.legal.shape, np.inf)
        keys = _Keys.of(x)
        alike: dict[Hashable, list[int]] = {}
        for j, q in enumerate(x.policies):
            alike.setdefault((keys.blocks[j], q.recompute.num_layers, q.schedule, q.overlap.p2p), []).append(j)
        for pp, vpp in np.unique(np.stack([x.pp, x.vpp]), axis=1).T:
            rows = np.flatnonzero((x.pp == pp) & (x.vpp == vpp))
            after: dict[Hashable, Any] = {}
            for columns in alike.values():
                picked = np.array(columns)
                legal = x.legal[np.ix_(rows, picked)]
                if legal.any():
                    used = legal.any(axis=1)
                    grid = np.ix_(rows[used], picked)
                    time_s[grid], memory[grid] = self._family(x, keys, rows[used], columns, legal[used], after)
        time_s[~x.legal], memory[~x.legal] = np.inf, np.inf
        return Bounds(time_s, memory, len(self._cells))

    def _family(
        self, x: Candidates, keys: _Keys, rows: Ints, columns: list[int], legal: Mask, after: dict[Hashable, Any]
    ) -> tuple[Floats, Floats]:
        """Bounds (n, J) of layouts that share pp and vpp under policies that share compute paths."""
        shape = (len(rows), len(columns))
        time_s, memory = np.full(shape, np.inf), np.full(shape, np.inf)
        policies = [x.policies[j] for j in columns]
        kinds, of = np.unique(keys.weights[rows], return_inverse=True)
        first = [int(rows[int(np.flatnonzero(of == w)[0])]) for w in range(len(kinds))]
        holds = [self._hold(x, keys, row, columns[0]) for row in first]
        known = np.array([h.cell is not None for h in holds])
        sample = next((h for h in holds if h.cell is not None), None)
        if sample is None or sample.cell is None or sample.pipe is None:
            return time_s, memory
        plan = _at(sample.cell.plan, x, int(rows[0]), policies[0], self.case.behaviour)
        tails = []
        nothing = _After.nothing(plan.pp)
        for w, row, held in zip(kinds.tolist(), first, holds, strict=True):
            if held.cell is None:
                tails.append([nothing] * len(policies))
            else:
                tails.append([self._after(held, x, row, q, after, w) for q in policies])
        static = np.array([[t.static_bytes for t in line] for line in tails])[of]  # (n, J, S)
        kept = np.array([h.kept_bytes for h in holds])[of] * x.mbs[rows][:, None]
        counts = {m: _held(plan.schedule, plan.pp, plan.vpp, m) for m in set(x.m[rows].tolist())}
        live = np.array([counts[m] for m in x.m[rows].tolist()])
        stays = np.array([1.0 - q.offload.activations for q in policies])
        memory = (static + (kept * live)[:, None, :] * stays[None, :, None]).max(axis=2)
        able = legal & known[of][:, None] & (memory <= self.capacity_bytes)
        paths = [
            self._path(x, keys, row, columns[0], sample.pipe) if able[i].any() else None
            for i, row in enumerate(rows.tolist())
        ]
        good = np.array([p is not None for p in paths])
        if good.any():
            finish = np.array([p.finish_s for p in paths if p is not None])
            whole = np.array([p.whole_s for p in paths if p is not None])
            at = of[good]
            reduce_s = np.array([[t.reduce_s for t in line] for line in tails])[at]  # (g, J, S)
            before = np.array([[t.before_s for t in line] for line in tails])[at]
            end = np.array([[t.end_s for t in line] for line in tails])[at]
            streams = np.array([[t.stream_s for t in line] for line in tails])[at]  # (g, J, 2, 2S)
            stream = (streams[:, :, 0] + streams[:, :, 1] * x.m[rows[good]][:, None, None]).max(axis=2)
            ends = np.maximum((finish[:, None, :] + reduce_s).max(axis=2), whole[:, None])
            time_s[good] = np.maximum(before + ends, stream) + end
        time_s[~able] = np.inf
        return time_s, memory

    def _cell(self, keys: _Keys, x: Candidates, row: int, policy: int, *, mbs: int | None = None) -> Cell | None:
        key = keys.cell(row, policy) if mbs is None else (keys.weights[row].item(), keys.blocks[policy], "least")
        if key not in self._cells:
            c = self.case
            training = c.training.model_copy(update={"precision": x.policies[policy].precision})
            plan = x.plan(row, policy)
            if mbs is not None:
                plan = plan.model_copy(update={"mbs": mbs})
            self._cells[key] = build_cell(c.model, c.cluster, training, plan, c.techniques, memory=mbs is not None)
        return self._cells[key]

    def _hold(self, x: Candidates, keys: _Keys, row: int, j: int) -> _Held:
        """What a stage keeps for one sequence of one micro-batch: tensors grow with tokens."""
        cell = self._cell(keys, x, row, j, mbs=1)
        if cell is None:
            return _Held(None, None, np.zeros(int(x.pp[row])))
        pipe = _pipe(cell, _at(cell.plan, x, row, x.policies[j], self.case.behaviour), self.case.cluster)
        return _Held(cell, pipe, cell.kept_bytes @ pipe.own.T)

    def _path(self, x: Candidates, keys: _Keys, row: int, j: int, pipe: _Pipe) -> _Path | None:
        """Compute path of one layout under one policy; None where the simulator refuses it."""
        cell = self._cell(keys, x, row, j)
        if cell is None:
            return None
        plan = _at(cell.plan, x, row, x.policies[j], self.case.behaviour)
        m = plan.m
        forward, backward, weight = cell.seconds
        hop = np.array([cell.near_s, cell.far_s])
        travel = hop @ pipe.hops
        fill = pipe.before @ forward + travel
        drain = pipe.before @ backward + travel
        sends = 0.0 if plan.overlap_p2p else hop @ pipe.sends
        passes = pipe.own @ (forward + backward)
        # a weight gradient may come after a stage's last backward: it delays the stage, not the shallower ones
        finish = fill + m * (passes + pipe.own @ weight + sends)
        # a blocking hop after the last backward is part of both the stage and the way down: counted once
        twice = 0.0 if plan.overlap_p2p else float(hop.max())
        whole = fill + m * (passes + sends) + drain - twice
        if not pipe.split:
            whole = np.maximum(whole, finish + drain - twice)
        return _Path(finish, float(max(whole.max(), finish.max())))

    def _after(self, held: _Held, x: Candidates, row: int, q: Policy, known: dict[Hashable, Any], w: int) -> _After:
        """Traffic, optimizer and weights of one layout under one policy, from the simulator's own functions.

        `known` keeps each part under the switches that it depends on (w: which weights).
        """
        cell, pipe, c = held.cell, held.pipe, self.case
        assert cell is not None and pipe is not None
        shard = (w, q.schedule, q.zero, q.shard_group)
        sent = ("sent", *shard, q.overlap.grad_reduce, q.overlap.param_gather)
        update = ("update", *shard, q.offload.optimizer, q.offload.tier)
        static = ("static", *shard, q.offload.optimizer, q.offload.params)
        if any(key not in known for key in (sent, update, static)):
            plan = _at(cell.plan, x, row, q, c.behaviour)
            parts = self._weights(held, plan)
            options = self._options(plan)
            traffic = Traffic(parts, plan, c.cluster, c.training, c.behaviour, options)
            s = plan.pp
            if static not in known:
                kinds = static_memory(parts, plan, c.training, c.behaviour, pipe.stage_of).by_kind
                known[static] = sum((kinds[name] for name in _LASTING if name in kinds), np.zeros(s))
            if update not in known:
                known[update] = float(traffic.optimizer_seconds(c.coefficients, pipe.stage_of, s).max())
            if sent not in known:
                none = 0.0, np.zeros(s), np.zeros((2, 2 * s)), 0.0
                known[sent] = self._data_parallel(traffic, plan, options, parts, pipe) if traffic.size > 1 else none
        before, reduce_s, stream, last = known[sent]
        return _After(before, reduce_s, stream, known[update] + last, known[static])

    def _weights(self, held: _Held, plan: ResolvedPlan) -> Parts:
        """What traffic and memory need to know of a model cut one way."""
        cell, pipe, c = held.cell, held.pipe, self.case
        assert cell is not None and pipe is not None
        mesh = Mesh(
            {"tp": plan.tp, "cp": plan.cp, "dp": plan.dp, "pp": plan.pp},
            tuple(a for a in plan.order if a != "ep"), c.cluster,
        )  # fmt: skip
        parts = replace(
            cell.parts, dense_params=pipe.depth @ cell.dense_params, expert_params=pipe.depth @ cell.expert_params,
            layers=np.asarray(pipe.layers, np.int32), mesh=mesh, dp_place=mesh.placement("cp", "dp"),
            expert_dp_place=placement(max(plan.expert_dp, 1), plan.ep * plan.etp, c.cluster.scale_up_domain),
            dummy_wgrad_bytes=np.zeros(plan.pp),
        )  # fmt: skip
        if parts.graph.tied and plan.pp > 1:
            parts.dense_params[-1] += plan.padded_vocab * c.model.hidden_size / plan.tp
        return parts

    def _options(self, plan: ResolvedPlan) -> StepOptions:
        from windtunnel.training.simulate import options_of

        return options_of(self.case.training, plan, self.case.behaviour, self.case.coefficients, self.case.techniques)

    def _data_parallel(
        self, traffic: Traffic, plan: ResolvedPlan, options: StepOptions, parts: Parts, pipe: _Pipe
    ) -> tuple[float, Floats, Floats, float]:
        """(before the first instruction, after each stage's last, least time of streams, after the optimizer)."""
        s, first = plan.pp, np.full(plan.pp, -1)
        for k in range(len(pipe.stage_of) - 1, -1, -1):
            first[pipe.stage_of[k]] = k
        if plan.zero == 3:
            pieces = np.maximum(parts.layers, 1)
            gather, scatter = traffic.gather(pieces)[0], traffic.reduce(pieces)[0]
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
            return float(gather[0]), scatter[first], np.array(sums).reshape(2, 2 * s), 0.0
        buckets = traffic.bucket_counts()
        last = 0.0
        if options.overlap_grad_reduce:
            reduce_s = traffic.reduce(buckets)[0][first]
        else:
            reduce_s = np.bincount(pipe.stage_of, weights=traffic.reduce(1.0)[0], minlength=s)
        before = float(traffic.gather(buckets)[0][0]) if traffic.gather_at_start else 0.0
        if plan.zero in (1, 2) and not traffic.gather_at_start and self.case.behaviour.shard_optimizer:
            last = float(np.bincount(pipe.stage_of, weights=traffic.gather_seconds(), minlength=s).min())
        return before, reduce_s, np.zeros((2, 2 * s)), last


_LASTING = ("weights", "gradients", "optimizer")
"""Kinds of static memory that are there at every peak."""


def _block_key(q: Policy) -> Hashable:
    """What changes the cost of a block."""
    split = schedules.describe(q.schedule).split_backward if q.schedule else False
    return (
        q.recompute.policy, q.recompute.modules, q.recompute.num_layers is None, q.sp, q.cp_kind, q.overlap.tp,
        q.overlap.moe_a2a, q.order, q.precision, split, q.zero == 3,
    )  # fmt: skip


def _at(plan: ResolvedPlan, x: Candidates, row: int, q: Policy, behaviour: Behaviour) -> ResolvedPlan:
    """A cell's plan with the sizes and switches of one candidate."""
    pp, vpp, dp = int(x.pp[row]), int(x.vpp[row]), int(x.dp[row])

    def switch(given: bool | None, default: bool) -> bool:
        return default if given is None else given

    schedule = chosen_schedule(q.schedule if pp > 1 else None, vpp, behaviour)
    return replace(
        plan, pp=pp, vpp=vpp, dp=dp, m=int(x.m[row]), zero=q.zero, shard_group=q.shard_group or dp * plan.cp,
        schedule=schedule, recompute=plan.recompute.model_copy(update={"num_layers": q.recompute.num_layers}),
        offload=q.offload, overlap_grad_reduce=switch(q.overlap.grad_reduce, plan.overlap_grad_reduce),
        overlap_param_gather=switch(q.overlap.param_gather, plan.overlap_param_gather),
        overlap_p2p=switch(q.overlap.p2p, plan.overlap_p2p),
    )  # fmt: skip


def _table(schedule: str, pp: int, vpp: int, m: int) -> InstructionTable:
    """The table of few micro-batches: what it holds and where parts sit, more micro-batches also do."""
    few = min(m, 2 * pp) if m % pp == 0 or m < 2 * pp else 2 * pp
    if schedules.describe(schedule).check(pp, few, vpp) is not None:
        few = m
    return schedules.build(schedule, pp, few, vpp)


def _held(schedule: str, pp: int, vpp: int, m: int) -> Floats:
    """(S,): whole-stage activations held at once, a lower bound."""
    table = _table(schedule, pp, vpp, m)
    return schedules.live_activations(table, 0.0 if table.split_backward else 1.0)


def _pipe(cell: Cell, plan: ResolvedPlan, cluster: ClusterSpec) -> _Pipe:
    table = _table(plan.schedule, plan.pp, plan.vpp, plan.m)
    stage_of = table.placement[:, 0].astype(np.int64)
    depth_of = len(cell.parts.graph.depth)
    layers = default_split(depth_of, plan.pp * plan.vpp, embedding=None, loss=None)
    plan = replace(plan, stage_layers=layers)
    depth = depth_columns(cell.parts, plan, stage_of)
    s = plan.pp
    own = np.zeros((s, depth.shape[1]))
    np.add.at(own, stage_of, depth)
    first = np.full(s, len(stage_of))
    np.minimum.at(first, stage_of, np.arange(len(stage_of)))
    cumulative = np.vstack([np.zeros(depth.shape[1]), np.cumsum(depth, axis=0)])
    moves = stage_of[1:] != stage_of[:-1]
    stride = cluster.num_devices // plan.pp
    far = hop_crosses(stride, cluster.scale_up_domain, stage_of[:-1], stage_of[1:])
    kinds = np.stack([moves & ~far, moves & far]).astype(np.float64)  # (2, K − 1)
    so_far = np.hstack([np.zeros((2, 1)), np.cumsum(kinds, axis=1)])
    sends = np.zeros((2, s))
    for kind in range(2):
        np.add.at(sends[kind], stage_of[:-1], kinds[kind])
        np.add.at(sends[kind], stage_of[1:], kinds[kind])
    return _Pipe(stage_of, depth, own, cumulative[first], so_far[:, first], sends, layers, table.split_backward)
