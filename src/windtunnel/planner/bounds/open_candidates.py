"""Candidates whose layer split or recomputation is left open: what the partition needs to know, and their bounds.

The seconds and bytes are the ones that `screen` adds up for fixed plans. Here a range of layers could go to any stage,
so that what depends on a stage's weights (gradient reductions, gathers) is priced once for every range.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

import numpy as np

from windtunnel import schedules
from windtunnel.arrays import Floats, Ints
from windtunnel.graph import PREDICTED
from windtunnel.network.groups import Mesh, placement
from windtunnel.parallel.plan_sizes import chosen_schedule, default_split
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.planner.bounds import virtual_stages as chunks
from windtunnel.planner.bounds.block_costs import Cell, build_cell, kept_by_kind
from windtunnel.planner.bounds.cost_sharing_keys import Keys
from windtunnel.planner.bounds.data_parallel_costs import LASTING, Case
from windtunnel.planner.bounds.pipeline_shape import held_at_once, pipe_of, plan_of, table_of_few
from windtunnel.planner.bounds.stage_partition import Cut, Depth, Pipeline, Tails, least_bound, least_bytes, mean_bytes
from windtunnel.planner.space.candidates import Candidates, Policy
from windtunnel.specs.plan import Offload, Recompute
from windtunnel.training.data_parallel.comm_costs import DataParallelComm, GroupComm
from windtunnel.training.memory.static_memory import static_memory
from windtunnel.training.stage_costs.stage_costs import StageCosts
from windtunnel.training.step_setup import options_of

_UNIT = 1e9
"""Weights for which a stage's lasting memory is asked: it is linear in them."""


@dataclass(frozen=True, slots=True)
class Held:
    """What layers keep, by kind, for one sequence of a micro-batch; tensors grow with their number."""

    cell: Cell
    """Of any micro-batch: weights are the same."""
    plain_bytes: Floats
    again_bytes: Floats
    """Of a layer that does not recompute, and of one that does."""


@dataclass(frozen=True, slots=True)
class Sent:
    """Data-parallel work of every range, (3, D + 1, D + 1) each; see `Tails`."""

    after_s: Floats
    gathers_s: tuple[Floats, Floats]
    reductions_s: tuple[Floats, Floats]
    """Of a stage's transfer stream: once a step, and for each micro-batch."""
    before_s: float
    """Least before the first instruction, whatever the first stage gets."""
    last_s: float
    """Least after the optimizer."""


@dataclass(slots=True)
class Balance:
    """Open candidates of one search space on one cluster."""

    case: Case
    x: Candidates
    capacity_bytes: float = float("inf")
    _cells: dict[Hashable, Cell | None] = field(default_factory=dict)
    _known: dict[Hashable, object] = field(default_factory=dict)
    _keys: Keys | None = None

    @property
    def keys(self) -> Keys:
        """What candidates share."""
        if self._keys is None:
            self._keys = Keys.of(self.x, self.case.cluster)
        return self._keys

    def bounds(self, row: int, policy: int) -> tuple[float, float]:
        """Least step time and least memory of any plan that an open candidate may become."""
        if self.x.vpp[row] > 1:
            return self._chunk_bounds(row, policy)
        layers = self.layers(row, policy)
        room = self._cut(row, policy, priced=False)
        if room is None:
            return float("inf"), 0.0
        bytes_ = least_bytes(room, layers) if layers else mean_bytes(room)
        cut = self.cut(row, policy) if bytes_ <= self.capacity_bytes else None
        if cut is None:
            return float("inf"), bytes_
        bound_s = least_bound(cut, layers)
        if not np.isfinite(bound_s):
            return float("inf"), least_bytes(cut, layers)
        sent, update_s = self._sent(row, policy), self._update(row, policy)
        return sent.before_s + bound_s + update_s + sent.last_s, bytes_

    def _chunk_bounds(self, row: int, policy: int) -> tuple[float, float]:
        x = self.chunks(row, policy)
        if x is None:
            return float("inf"), 0.0
        layers = self.layers(row, policy)
        if layers is None:
            time_s, bytes_ = chunks.least_s(x), chunks.least_bytes(x)
        else:
            everything = chunks.given(replace(x, capacity_bytes=0.0), layers) if x.again is None else None
            found = chunks.given(x, layers)
            time_s, bytes_ = found.bound_s, float((everything or found).bytes.max())
        if bytes_ > self.capacity_bytes:
            return float("inf"), bytes_
        sent, update_s = self._sent(row, policy), self._update(row, policy)
        return sent.before_s + time_s + update_s + sent.last_s, bytes_

    def chunks(self, row: int, policy: int) -> chunks.Chunks | None:
        """Virtual stages of a candidate; None where the simulator refuses it."""
        cut, cell = self._cut(row, policy, priced=True), self._cell(row, policy)
        if cut is None or cell is None:
            return None
        plan = plan_of(cell.plan, self.x, row, self.x.policies[policy], self.case.behaviour)
        live = np.array(chunks.live_parts(plan.schedule, plan.pp, plan.vpp, plan.m))
        return chunks.Chunks(
            depth=cut.depth,
            m=plan.m,
            stage_of=self.stage_of(row, policy),
            live=live,
            travel_s=cut.pipe.travel_s,
            split=cut.pipe.split,
            capacity_bytes=self.capacity_bytes,
            again=cut.again,
        )

    def stage_of(self, row: int, policy: int) -> Ints:
        """(K,): stage of each part."""
        q, x = self.x.policies[policy], self.x
        pp, vpp, m = int(x.pp[row]), int(x.vpp[row]), int(x.m[row])
        schedule = chosen_schedule(q.schedule if pp > 1 else None, vpp, self.case.behaviour)
        return table_of_few(schedule, pp, vpp, m).placement[:, 0].astype(np.int64)

    def layers(self, row: int, policy: int) -> tuple[int, ...] | None:
        """The split of a candidate, where it is not open."""
        q = self.x.policies[policy]
        return None if q.stage_layers == "balanced" else self.even(row, policy)

    def even(self, row: int, policy: int) -> tuple[int, ...]:
        """The split that a candidate has unless the partition makes another: the framework's, or one written out."""
        plan, depth = self.x.plan(row, policy), len(self.case.model.layer_kinds())
        ends = {"embedding": plan.embedding_as_layer, "loss": plan.loss_as_layer}
        return plan.stage_layers or default_split(depth, plan.pp * plan.vpp, **ends)

    def cut(self, row: int, policy: int) -> Cut | None:
        """What the partition has to decide for one candidate; None where the simulator refuses it."""
        return self._cut(row, policy, priced=True)

    def _cut(self, row: int, policy: int, *, priced: bool) -> Cut | None:
        """With seconds or, where they are not asked for, memory alone."""
        q, held = self.x.policies[policy], self._held(row, policy)
        cell = self._cell(row, policy) if priced and held is not None else None
        if held is None or (priced and cell is None):
            return None
        plan = plan_of((cell or held.cell).plan, self.x, row, q, self.case.behaviour)
        pipe = self._pipeline(row, policy, cell or held.cell, plan)
        depth = self._depth(row, policy, held, cell, plan, split=pipe.split)
        again = None if q.balanced_recompute else len(depth) if q.recompute.policy != "none" else 0
        counts = q.recompute.num_layers
        if again and isinstance(counts, int):
            again = counts
        tails = None
        if priced:
            sent, m = self._sent(row, policy), pipe.m
            least = (once + m * each for once, each in (sent.gathers_s, sent.reductions_s))
            tails = Tails(sent.after_s, np.maximum(*least))
        return Cut(depth, pipe, self.capacity_bytes, again, tails=tails)

    def _cell(self, row: int, policy: int, *, kept: bool = False) -> Cell | None:
        """Costs of layers with and without recomputation. Policies that do without it share those of one that has.

        What is `kept` depends on whether there is a pipeline, and hardly on the layout else.
        """
        q = self.x.policies[policy]
        if q.recompute.policy == "none":
            alike = [j for j, o in enumerate(self.x.policies) if o.is_open and _but_recompute(o) == _but_recompute(q)]
            policy = next((j for j in alike if self.x.policies[j].recompute.policy != "none"), policy)
        key = (int(self.keys.weights[row]), self.keys.blocks[policy], "kept") if kept else self.keys.cell(row, policy)
        if self._cells.get(key) is None:
            c, plan = self.case, self.x.plan(row, policy)
            how = plan.recompute.model_copy(update={"num_layers": 0})
            plan = plan.model_copy(update={"recompute": how, "stage_layers": None})
            self._cells[key] = build_cell(
                c.model, c.cluster, c.training, plan, c.techniques, memory=False, known=c.known
            )
        return self._cells[key]

    def _held(self, row: int, policy: int) -> Held | None:
        """What layers keep, from the trace that the simulator replays."""
        key = ("held", int(self.keys.weights[row]), self.keys.blocks[policy])
        if key not in self._known:
            cell = self._cell(row, policy, kept=True)
            if cell is None:  # this candidate alone is refused
                return None
            how = self.x.policies[policy].recompute
            if how.policy != "none":
                how = cell.plan.recompute.model_copy(update={"num_layers": None})
            table = schedules.build(cell.plan.schedule, cell.plan.pp, cell.plan.m, cell.plan.vpp)
            kept = []
            for policy_of in (Recompute(), how):
                plan = replace(cell.plan, recompute=policy_of, offload=Offload())
                by_kind = kept_by_kind(cell.parts, plan, table, self.case.training, self.case.behaviour)
                kept.append(by_kind[: len(cell.parts.graph.blocks)] / plan.mbs)
            self._known[key] = Held(cell, kept[0], kept[1])
        found = self._known[key]
        assert isinstance(found, Held)
        return found

    def _pipeline(self, row: int, policy: int, cell: Cell, plan: ResolvedPlan) -> Pipeline:
        hops = int(self.keys.hops[plan.order][row])
        sizes = (plan.schedule, plan.pp, plan.vpp, plan.m, plan.overlap_p2p, plan.order, hops, cell.near_s, cell.far_s)
        if ("pipe", sizes) not in self._known:
            pipe, p, m = pipe_of(cell, plan, self.case.cluster, self.x.plan(row, policy)), plan.pp, plan.m
            hop = np.array([cell.near_s, cell.far_s])
            warm, between = np.full(p, m), np.zeros(p, np.int64)
            if schedules.describe(plan.schedule).uses_costs:  # arranged for the costs of a partition
                live = np.ones(p)
            else:
                live = held_at_once(plan.schedule, p, plan.vpp, m)
            if plan.schedule == "1f1b":
                ahead = p - np.arange(p)
                warm, between = np.minimum(ahead, m), np.maximum(m - ahead, 0)
            sends = 0.0 * live if plan.overlap_p2p else hop @ pipe.sends
            self._known["pipe", sizes] = Pipeline(
                m=m, live=live, warm=warm, between=between, travel_s=hop @ pipe.hops, sends_s=sends, split=pipe.split
            )
        found = self._known["pipe", sizes]
        assert isinstance(found, Pipeline)
        return found

    def _depth(
        self, row: int, policy: int, held: Held, priced: Cell | None, plan: ResolvedPlan, *, split: bool
    ) -> Depth:
        cell, g = held.cell, held.cell.parts.graph
        names = list(g.blocks)
        n = len(names)
        at = np.array([names.index(kind) for kind in g.depth])
        columns = {name: i for i, name in enumerate(names)} | {"embedding": 2 * n, "head": 2 * n + 1}
        deep = np.zeros(2 * n + 2)
        deep[2 * n + 1] = 1.0
        for name in (PREDICTED, "embedding", "head") if g.further_tokens else ():
            deep[columns[name]] += g.further_tokens
        passes = np.zeros((3, 2 * n + 2)) if priced is None else priced.seconds.copy()
        if not split:
            passes[1], passes[2] = passes[1] + passes[2], 0.0
        ends = np.stack([passes[:, 2 * n], passes @ deep], axis=1)
        dense, expert = self.lasting(row, policy, cell, plan)
        bytes_of = dense * cell.dense_params + expert * cell.expert_params
        last = bytes_of[2 * n + 1]
        if g.further_tokens:
            last += g.further_tokens * bytes_of[columns[PREDICTED]]
        if g.tied and plan.pp > 1:
            last += dense * plan.padded_vocab * self.case.model.hidden_size / plan.tp
        stays = (1.0 - plan.offload.activations) * float(self.x.mbs[row])
        kept = stays * held.plain_bytes
        saved = np.maximum(kept - stays * held.again_bytes, 0.0)
        return Depth(
            forward_s=passes[0, n + at],
            backward_s=passes[1, n + at],
            weight_s=passes[2, n + at],
            again_s=(passes[1, :n] - passes[1, n : 2 * n])[at],
            kept_bytes=kept[at],
            saved_bytes=saved[at],
            static_bytes=bytes_of[at],
            ends_s=ends,
            ends_bytes=np.array([bytes_of[2 * n], last]),
        )

    def _parts(self, cell: Cell, plan: ResolvedPlan, dense: Floats, expert: Floats, layers: Ints) -> StageCosts:
        """Stages with these weights, for functions that ask what a stage's weights cost."""
        cluster = self.case.cluster
        mesh = Mesh(
            {"tp": plan.tp, "cp": plan.cp, "dp": plan.dp, "pp": plan.pp},
            tuple(a for a in plan.order if a != "ep"),
            cluster,
        )
        return replace(
            cell.parts,
            dense_params=dense,
            expert_params=expert,
            layers=layers.astype(np.int32),
            mesh=mesh,
            dp_place=mesh.placement("cp", "dp"),
            dummy_wgrad_bytes=np.zeros(len(dense)),
            expert_dp_place=placement(max(plan.expert_dp, 1), plan.ep * plan.etp, cluster.scale_up_domain),
        )

    def _place(self, row: int, policy: int) -> tuple[Hashable, ...]:
        """Where weights are and which ranks share them."""
        return int(self.x.pp[row]), int(self.keys.weights[row]), self.x.policies[policy].order

    def lasting(self, row: int, policy: int, cell: Cell, plan: ResolvedPlan) -> tuple[float, float]:
        """Bytes that last through a step for each dense and each expert weight of a stage."""
        key = ("lasting", *self._place(row, policy), self.keys.holds[policy])
        if key not in self._known:
            c, unit = self.case, np.array([_UNIT, 0.0])
            parts = self._parts(cell, plan, unit, unit[::-1], np.ones(2, np.int64))
            kinds = static_memory(parts, replace(plan, pp=2), c.training, c.behaviour, np.arange(2)).by_kind
            total = sum((kinds[name] for name in LASTING if name in kinds), np.zeros(2)) / _UNIT
            self._known[key] = (float(total[0]), float(total[1]))
        found = self._known[key]
        assert isinstance(found, tuple)
        return found

    def _traffic(self, row: int, policy: int, dense: Floats, expert: Floats, layers: Ints) -> DataParallelComm:
        held, c = self._held(row, policy), self.case
        assert held is not None
        plan = plan_of(held.cell.plan, self.x, row, self.x.policies[policy], c.behaviour)
        options = options_of(c.training, plan, c.behaviour, c.coefficients, c.techniques)
        parts = self._parts(held.cell, plan, dense, expert, layers)
        return GroupComm(parts, plan, c.cluster, c.training, c.behaviour, options)

    def _weights(self, row: int, policy: int) -> tuple[Floats, Floats, Floats, Floats]:
        """Dense and expert weights of each layer, and of both ends."""
        held = self._held(row, policy)
        assert held is not None
        cell, g = held.cell, held.cell.parts.graph
        names = list(g.blocks)
        at, n = np.array([names.index(kind) for kind in g.depth]), len(names)
        ends = np.array([cell.dense_params[2 * n], cell.dense_params[2 * n + 1]])
        return cell.dense_params[at], cell.expert_params[at], ends, cell.expert_params[[2 * n, 2 * n + 1]]

    def _update(self, row: int, policy: int) -> float:
        """Least seconds of the slowest stage's optimizer: some stage has the mean of the weights or more."""
        key = ("update", *self._place(row, policy), self.keys.updates[policy])
        if key not in self._known:
            dense, expert, ends, more = self._weights(row, policy)
            p = int(self.x.pp[row])
            mean = np.array([(dense.sum() + ends.sum()) / p]), np.array([(expert.sum() + more.sum()) / p])
            traffic = self._traffic(row, policy, *mean, np.ones(1, np.int64))
            self._known[key] = float(traffic.optimizer_seconds(self.case.coefficients, np.zeros(1, np.int64), 1)[0])
        found = self._known[key]
        assert isinstance(found, float)
        return found

    def _sent(self, row: int, policy: int) -> Sent:
        """Data-parallel traffic of every range that a stage could get."""
        key = ("sent", *self._place(row, policy), self.keys.sends[policy])
        if key not in self._known:
            self._known[key] = self._price(row, policy)
        found = self._known[key]
        assert isinstance(found, Sent)
        return found

    def _price(self, row: int, policy: int) -> Sent:
        dense, expert, ends, more = self._weights(row, policy)
        d, p = len(dense), int(self.x.pp[row])
        sums = [np.concatenate([[0.0], np.cumsum(w)]) for w in (dense, expert)]
        i, j = np.meshgrid(np.arange(d + 1), np.arange(d + 1), indexing="ij")
        # ranges with the same weights and number of layers are priced once
        over = [np.where(i <= j, w[j] - w[i], 0.0).reshape(-1) for w in sums]
        records = np.round(np.stack([*over, np.maximum(j - i, 0).reshape(-1).astype(float)]))
        kinds, of = np.unique(records, axis=1, return_inverse=True)
        have = [np.eye(2)[0], np.zeros(2), np.eye(2)[1]] if p > 1 else [np.ones(2)] * 3
        both = ((kinds[0], ends), (kinds[1], more))
        weights = [np.concatenate([kind + at @ end for at in have]) for kind, end in both]
        number, shape = len(kinds[0]), (3, d + 1, d + 1)
        layers = np.tile(kinds[2].astype(np.int64), 3)
        traffic = self._traffic(row, policy, weights[0], weights[1], layers)
        nothing = np.zeros(3 * number)

        def table(values: Floats) -> Floats:
            by_end = np.broadcast_to(values, (3 * number,)).reshape(3, number)
            return np.asarray(by_end[:, of.reshape(-1)].reshape(shape))

        plan, options = traffic.plan, traffic.options
        if traffic.size <= 1:
            none = table(nothing)
            return Sent(none, (none, none), (none, none), 0.0, 0.0)
        first = slice(0, number)
        if plan.zero == 3:
            pieces = np.maximum(layers, 1)
            gather, scatter = traffic.gather(pieces).seconds, traffic.reduce(pieces).seconds
            again = plan.reshard_after_forward
            every = options.sync_every_micro_batch and again
            total = scatter * pieces
            gathers = (nothing, gather * (2 * pieces - 1)) if again else (gather * pieces, nothing)
            reductions = (nothing, total) if every else (total, nothing)
            return Sent(
                table(scatter),
                (table(gathers[0]), table(gathers[1])),
                (table(reductions[0]), table(reductions[1])),
                float(gather[first].min()),
                0.0,
            )
        buckets = traffic.bucket_counts()
        reduce_s = traffic.reduce(buckets if options.overlap_grad_reduce else 1.0).seconds
        before = float(traffic.gather(buckets).seconds[first].min()) if traffic.gather_at_start else 0.0
        last = 0.0
        if plan.zero in (1, 2) and not traffic.gather_at_start and self.case.behaviour.shard_optimizer:
            last = float(traffic.gather_seconds().min())
        none, total = table(nothing), table(nothing)
        if options.overlap_grad_reduce:
            total = table(reduce_s * buckets)
        reductions = (none, total) if options.reduce_every_micro_batch else (total, none)
        return Sent(table(reduce_s), (none, none), reductions, before, last)


def _but_recompute(q: Policy) -> Policy:
    """A policy without what it recomputes, how it splits, and what blocks do not depend on."""
    return replace(q, recompute=Recompute(), stage_layers=None, balanced_recompute=False)


def fill_bounds(case: Case, x: Candidates, capacity_bytes: float, time_s: Floats, memory_bytes: Floats) -> None:
    """Put the bounds of open candidates into a grid."""
    columns = [j for j, q in enumerate(x.policies) if q.is_open]
    if not columns:
        return
    balance = Balance(case, x, capacity_bytes)
    for j in columns:
        for row in np.flatnonzero(x.legal[:, j]).tolist():
            time_s[row, j], memory_bytes[row, j] = balance.bounds(row, j)


__all__ = ["Balance", "fill_bounds"]
