"""Lower bounds of step time and memory for all candidates at once.

Every second and byte comes from the simulator's own functions (cells, `Traffic`, `static_memory`); this module only adds
them up along paths that every simulation has to walk, so bound ≤ simulated by construction:

* a stage cannot start before the first micro-batch came through the shallower parts, runs all its instructions one after
  the other, and after its last backward the shallower parts still have to run theirs;
* what the framework does after the last backward (a reduction that does not overlap, the last bucket of one that does,
  the optimizer, a gather that is not deferred) follows the slowest stage;
* a stream that carries all parameter gathers, or all gradient reductions, takes at least their sum.

Tasks that run side by side can only slow each other down, so times of tasks that run alone are bounds.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

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
    """Compute paths of layouts (n,) that share a pipeline. Arrays (n, S)."""

    finish_s: Floats
    """Earliest end of each stage's own instructions."""
    whole_s: Floats
    """Earliest end of what must follow on shallower stages."""


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


@dataclass(slots=True)
class Screener:
    """Bounds of candidates on one cluster; keeps what several calls can share."""

    case: Case
    _cells: dict[Hashable, Cell | None] = field(default_factory=dict)

    def bounds(self, x: Candidates) -> Bounds:
        """Bounds of all candidates."""
        time_s, memory = np.full(x.legal.shape, np.inf), np.full(x.legal.shape, np.inf)
        plain_order = len({q.order for q in x.policies}) == 1 and x.policies[0].order[-1] == "pp"
        columns = [x.tp, x.cp, x.ep, x.etp, x.mbs, np.minimum(x.m, 2)]
        if any(q.zero == 3 for q in x.policies):  # unsharded copies are part of a block, once a step under a pipeline
            columns += [np.where(x.pp > 1, x.m, 0), np.minimum(x.dp * x.cp, 2)]
        if not plain_order:
            columns += [x.pp, x.dp]
        of_layout = np.unique(np.stack(columns), axis=1, return_inverse=True)[1].reshape(-1)
        weights = np.unique(np.stack([x.tp, x.cp, x.ep, x.etp]), axis=1, return_inverse=True)[1].reshape(-1)
        block_keys = [_block_key(q) for q in x.policies]
        for pp, vpp in np.unique(np.stack([x.pp, x.vpp]), axis=1).T:
            rows = np.flatnonzero((x.pp == pp) & (x.vpp == vpp))
            paths: dict[Hashable, tuple[_Path, _Pipe, list[Cell], Ints, Floats]] = {}
            after: dict[Hashable, list[_After]] = {}
            for j, q in enumerate(x.policies):
                if not x.legal[rows, j].any():
                    continue
                key = (block_keys[j], q.recompute.num_layers, q.schedule, q.overlap.p2p)
                if key not in paths:
                    paths[key] = self._paths(x, rows, j, block_keys[j], of_layout)
                path, pipe, cells, used, kept = paths[key]
                if not len(used):
                    continue
                here = rows[used]
                kinds, of = np.unique(weights[here], return_inverse=True)
                tail_key = (key, _after_key(q))
                if tail_key not in after:
                    at = [int(np.flatnonzero(of == w)[0]) for w in range(len(kinds))]
                    after[tail_key] = [
                        self._after(self._cells[self._key(of_layout, here[i], block_keys[j])], x, int(here[i]), q, pipe)
                        for i in at
                    ]
                tails = after[tail_key]
                reduce_s = np.array([t.reduce_s for t in tails])[of]
                before, end = (np.array([getattr(t, name) for t in tails])[of] for name in ("before_s", "end_s"))
                streams = np.array([t.stream_s for t in tails])[of]
                stream = (streams[:, 0] + streams[:, 1] * x.m[here][:, None]).max(axis=1)
                ends = np.maximum((path.finish_s + reduce_s).max(axis=1), path.whole_s.max(axis=1))
                time_s[here, j] = np.maximum(before + ends, stream) + end
                static = np.array([t.static_bytes for t in tails])[of]
                memory[here, j] = (static + kept * (1.0 - q.offload.activations)).max(axis=1)
        time_s[~x.legal], memory[~x.legal] = np.inf, np.inf
        return Bounds(time_s, memory, len(self._cells))

    @staticmethod
    def _key(of_layout: Ints, row: Ints, block_key: Hashable) -> Hashable:
        return int(of_layout[row]), block_key

    def _cell(self, key: Hashable, x: Candidates, row: int, policy: int) -> Cell | None:
        if key not in self._cells:
            c = self.case
            training = c.training.model_copy(update={"precision": x.policies[policy].precision})
            self._cells[key] = build_cell(c.model, c.cluster, training, x.plan(row, policy), c.techniques)
        return self._cells[key]

    def _paths(
        self, x: Candidates, rows: Ints, j: int, block_key: Hashable, of_layout: Ints
    ) -> tuple[_Path, _Pipe, list[Cell], Ints, Floats]:
        """Compute paths of all layouts of a pipeline; layouts that the simulator refuses drop out."""
        q = x.policies[j]
        cells, used = [], []
        for i, row in enumerate(rows.tolist()):
            if not x.legal[row, j]:
                continue
            cell = self._cell((int(of_layout[row]), block_key), x, row, j)
            if cell is not None:
                cells.append(cell)
                used.append(i)
        index = np.array(used, np.int64)
        if not used:
            return _Path(np.zeros((0, 1)), np.zeros((0, 1))), None, cells, index, np.zeros((0, 1))  # type: ignore[return-value]
        plan = _at(cells[0].plan, x, int(rows[index[0]]), q, self.case.behaviour)
        pipe = _pipe(cells[0], plan, self.case.cluster)
        m = x.m[rows[index]].astype(np.float64)[:, None]
        seconds = np.stack([c.seconds for c in cells])  # (n, 3, E)
        forward, backward, weight = (seconds[:, d] for d in range(3))
        hop = np.array([[c.near_s, c.far_s] for c in cells])
        blocking = not plan.overlap_p2p
        travel = hop @ pipe.hops
        fill = forward @ pipe.before.T + travel
        drain = backward @ pipe.before.T + travel
        sends = hop @ pipe.sends if blocking else 0.0
        passes = (forward + backward) @ pipe.own.T
        late = weight @ pipe.own.T
        # a weight gradient may come after a stage's last backward: it delays the stage, not the shallower ones
        finish = fill + m * (passes + late + sends)
        whole = np.maximum(fill + m * (passes + sends) + drain, finish)
        if not pipe.split:
            whole = np.maximum(whole, finish + drain)
        kept = np.stack([c.kept_bytes for c in cells]) @ pipe.own.T
        held = np.stack([_held(plan.schedule, plan.pp, plan.vpp, int(v)) for v in m[:, 0]])
        return _Path(finish, whole), pipe, cells, index, kept * held

    def _after(self, cell: Cell | None, x: Candidates, row: int, q: Policy, pipe: _Pipe) -> _After:
        """Traffic, optimizer and weights of one layout under one policy, from the simulator's own functions."""
        assert cell is not None
        c = self.case
        plan = _at(cell.plan, x, row, q, c.behaviour)
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
        options = self._options(plan)
        traffic = Traffic(parts, plan, c.cluster, c.training, c.behaviour, options)
        s = plan.pp
        static = static_memory(parts, plan, c.training, c.behaviour, pipe.stage_of).total
        end = float(traffic.optimizer_seconds(c.coefficients, pipe.stage_of, s).max())
        reduce_s, before, stream = np.zeros(s), 0.0, np.zeros((2, 2 * s))
        if traffic.size > 1:
            before, reduce_s, stream, last = self._data_parallel(traffic, plan, options, parts, pipe)
            end += last
        return _After(before, reduce_s, stream, end, static)

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
            stream = np.array([[once_g, 0 * total_r if every else total_r], [each_g, total_r if every else 0 * total_r]])
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


def _block_key(q: Policy) -> Hashable:
    """What changes the cost of a block."""
    split = schedules.describe(q.schedule).split_backward if q.schedule else False
    return (
        q.recompute.policy, q.recompute.modules, q.recompute.num_layers is None, q.sp, q.cp_kind, q.overlap.tp,
        q.overlap.moe_a2a, q.order, q.precision, split, q.zero == 3,
    )  # fmt: skip


def _after_key(q: Policy) -> Hashable:
    """What changes data-parallel work and weights."""
    return q.zero, q.shard_group, q.overlap.grad_reduce, q.overlap.param_gather, q.offload


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
