"""Data-parallel traffic of a step: gradient buckets, parameter gathers, sharded layers, the optimizer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from windtunnel.cost.coefficients import Behaviour, Coefficients
from windtunnel.cost.memory_bound import OPTIMIZER_STATE_BYTES, optimizer_bytes, optimizer_time_s
from windtunnel.network.groups import GroupPlacement, placement
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.schedules.blocks import block_of
from windtunnel.schedules.table import B, F, InstructionTable, W
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.workload import TrainingSpec
from windtunnel.techniques.step_options import StepOptions
from windtunnel.training.assembly import S_GATHER, S_REDUCE, T_GATHER, T_REDUCE, Assembly, Floats, Rows
from windtunnel.training.host_update import HostUpdate, spelt_out
from windtunnel.training.levels import gather_passes, level_place, reduce_passes, wire_bytes
from windtunnel.training.parts import Parts
from windtunnel.training.tensor_lists import GATHER_PASSES, REDUCE_PASSES, TensorLists


class Traffic:
    """Seconds and work of data-parallel collectives per virtual stage."""

    def __init__(
        self, parts: Parts, plan: ResolvedPlan, cluster: ClusterSpec, training: TrainingSpec, behaviour: Behaviour,
        options: StepOptions,
    ) -> None:  # fmt: skip
        self.parts, self.plan, self.cluster, self.training, self.behaviour = parts, plan, cluster, training, behaviour
        self.options = options
        self.size = plan.dp * plan.cp * plan.copies
        self.replicated = self.size > 1
        """Whether gradients are reduced at all: among these replicas, or between them and others."""
        self.edp = max(plan.expert_dp, 1)
        self.gather_at_start = options.overlap_param_gather and plan.zero in (1, 2) and behaviour.shard_optimizer
        self.trainable = parts.trainable_share
        by_tensor = behaviour.gathers_by_tensor and plan.zero == 3 and self.size > 1
        self.lists = TensorLists.of(parts.graph) if by_tensor else None

    def bucket_counts(self) -> Rows:
        """Pieces of each virtual stage's gradients: by size when one is given, else at most one a layer."""
        parts, options = self.parts, self.options
        if options.bucket_bytes:
            size = (parts.dense_params + parts.expert_params) * options.grad_bytes
            return np.clip(np.ceil(size / options.bucket_bytes), 1, 512).astype(np.int64)
        return np.minimum(np.maximum(parts.layers, 1), options.buckets_per_chunk).astype(np.int64)

    def _shard_places(self) -> tuple[GroupPlacement, GroupPlacement | None]:
        """Placement of the shard group and, under HSDP, of its replicas."""
        if self.plan.shard_group >= self.size:
            return self.parts.dp_place, None
        stride = self.parts.mesh.strides["cp"]
        mesh, group = self.parts.mesh, self.plan.shard_group
        return mesh.strided(group, stride), mesh.strided(self.size // group, stride * group)

    def _run(self, op: str, nbytes: Floats, place: GroupPlacement) -> tuple[Floats, Floats, Floats, float, Floats]:
        if float(place.size) <= 1:
            zero = np.zeros_like(nbytes)
            return zero, zero, zero, 0.0, zero
        one = self.parts.network.collective(op, nbytes, place, axis="dp")
        shape = np.shape(nbytes)

        def full(x: npt.ArrayLike) -> Floats:
            return np.broadcast_to(np.asarray(x, np.float64), shape)

        return (
            full(one.alone_s),
            full(one.work_scale_up_bytes),
            full(one.work_scale_out_bytes),
            float(np.max(one.channels)),
            full(one.hbm_bytes),
        )

    def _in_lists(
        self, op: str, nbytes: Floats, passes: float, place: GroupPlacement
    ) -> tuple[Floats, Floats, Floats, float, Floats]:
        """A layer's collective, or one a tensor with the copies out of, or into, its list of pieces."""
        if self.lists is None:
            return self._run(op, nbytes, place)
        n, copied = self.lists.tensors, nbytes * passes
        t, up, out, channels, hbm = self._run(op, nbytes / n, place)
        return t * n + copied / self.cluster.device.memory_bytes_per_s, up * n, out * n, channels, hbm * n + copied

    def launched(self) -> tuple[float, float]:
        """Seconds of one layer in which the device waits for the host: beside its gather, and its reduction."""
        if self.lists is None:
            return 0.0, 0.0
        each = self.lists.host_s(self.plan.shard_group)
        return each, each * (self.trainable > 0.0)

    def _sized(self, op: str, nbytes: Floats, place: GroupPlacement, passes: Floats) -> tuple[Floats, ...]:
        """A collective at one level, with the passes over memory at its ends; see `gather` for what it returns."""
        t, up, out, channels, hbm = self._run(op, nbytes, place)
        t = t + passes / self.cluster.device.memory_bytes_per_s
        return t, up, out, t * min(channels / self.cluster.device.num_sms, 0.5), hbm + passes

    def _level_gather(self, pieces: npt.ArrayLike, *, again: bool) -> tuple[Floats, ...]:
        """A piece's weights from the level that has them nearest."""
        levels, params = self.plan.levels, self.parts.dense_params / np.asarray(pieces, np.float64)
        assert levels is not None
        own = levels.params or self.plan.shard_group
        if again and levels.params_again:
            place = level_place(self.parts, self.plan, levels.params_again)
            return self._sized("all_gather", params * self.behaviour.element_bytes, place, 0.0 * params)
        bits = levels.gather_bits
        passes = params * gather_passes(bits, own)
        return self._sized("all_gather", params * wire_bytes(bits), level_place(self.parts, self.plan, own), passes)

    def _level_bits(self) -> int:
        levels = self.plan.levels
        return int((levels and levels.reduce_bits) or 8 * self.options.grad_bytes)

    def _level_reduce(self, pieces: npt.ArrayLike) -> tuple[Floats, ...]:
        """A piece's gradients among the ranks that scatter them after every micro-batch."""
        levels, params = self.plan.levels, self.parts.dense_params / np.asarray(pieces, np.float64) * self.trainable
        assert levels is not None
        size, bits = levels.gradients or self.plan.shard_group, self._level_bits()
        place, passes = level_place(self.parts, self.plan, size), params * reduce_passes(bits, size)
        return self._sized("reduce_scatter", params * wire_bytes(bits), place, passes)

    def once_a_step(self, pieces: npt.ArrayLike) -> tuple[Floats, Floats, Floats]:
        """The rest of the reduction where gradients are scattered level by level: seconds, up, out."""
        levels, cut = self.plan.levels, np.asarray(pieces, np.float64)
        inner = levels.gradients if levels else None
        if inner is None or inner >= self.plan.shard_group:
            return np.zeros_like(cut), np.zeros_like(cut), np.zeros_like(cut)
        params, bits = self.parts.dense_params / cut * self.trainable / inner, self._level_bits()
        place = level_place(self.parts, self.plan, self.plan.shard_group // inner, inner)
        t, up, out, _, _ = self._sized(
            "reduce_scatter", params * wire_bytes(bits), place, params * reduce_passes(bits, float(place.size))
        )
        return t, up, out

    def refreshed(self) -> Floats:
        """Seconds of each virtual stage to bring updated weights from optimizer state to where they are cut over."""
        levels = self.plan.levels
        own = levels.params if levels else None
        if own is None or own >= self.plan.shard_group:
            return np.zeros(len(self.parts.layers))
        place = level_place(self.parts, self.plan, self.plan.shard_group // own, own)
        return self._run("all_gather", self.parts.dense_params * self.behaviour.element_bytes / own, place)[0]

    def reduce(self, pieces: npt.ArrayLike) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """One gradient bucket of each virtual stage: seconds, up, out, SM-seconds, HBM bytes.

        Without what `between_slices` and `once_a_step` count.
        """
        if self.plan.levels is not None:
            t, up, out, sm, hbm = self._level_reduce(pieces)
            return t, up, out, sm, hbm
        cut = np.asarray(pieces, np.float64)
        grads = self.options.grad_bytes * self.trainable
        dense, expert = self.parts.dense_params * grads / cut, self.parts.expert_params * grads / cut
        shard, replicas = self._shard_places()
        zero = self.plan.zero if self.behaviour.shard_optimizer else 0
        op = "all_reduce" if zero == 0 else "reduce_scatter"
        t, up, out, channels, hbm = self._in_lists(op, dense, REDUCE_PASSES, shard)
        if replicas is not None and not self._by_tensor:
            t2, up2, out2, _, hbm2 = self._run("all_reduce", dense / self.plan.shard_group, replicas)
            t, up, out, hbm = t + t2, up + up2, out + out2, hbm + hbm2
        if expert.any():
            t2, up2, out2, _, hbm2 = self._run(op, expert, self.parts.expert_dp_place)
            t, up, out, hbm = t + t2, up + up2, out + out2, hbm + hbm2
        return t, up, out, t * min(channels / self.cluster.device.num_sms, 0.5), hbm

    @property
    def _by_tensor(self) -> bool:
        return self.parts.network.params.out.by_tensor

    def between_slices(self, pieces: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Seconds and bytes of a bucket's all-reduce between replicas where it goes tensor by tensor through hosts."""
        cut = np.asarray(pieces, np.float64)
        grads = self.parts.dense_params * self.options.grad_bytes * self.trainable / cut
        _, replicas = self._shard_places()
        if replicas is None or not self._by_tensor:
            return np.zeros_like(grads), np.zeros_like(grads)
        parts = self._tensors()
        seconds, _, out, _, _ = self._run("all_reduce", grads / self.plan.shard_group / parts, replicas)
        return seconds * parts, out * parts

    def _tensors(self) -> float:
        """Weight tensors of a layer, mean over the depth: queries, keys and values apart, gate and up apart."""
        graph = self.parts.graph
        total = 0.0
        for kind in graph.depth:
            inner = {op.name: op.k for op in graph.blocks[kind].operators}
            for op in graph.blocks[kind].operators:
                down = inner.get(op.name.replace("fc1", "fc2"), 0.0) if op.name.endswith("fc1") else 0.0
                total += 0.0 if not op.params else 3.0 if op.name == "qkv" else op.n / down if down else 1.0
        return total / len(graph.depth)

    def gather(
        self, pieces: npt.ArrayLike, *, again: bool = False
    ) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """One parameter bucket of each virtual stage; `again`: for backward, from a second copy where there is one."""
        if self.plan.levels is not None:
            t, up, out, sm, hbm = self._level_gather(pieces, again=again)
            return t, up, out, sm, hbm
        cut = np.asarray(pieces, np.float64)
        quantised = self.behaviour.quantised_param_gather and self.training.precision == "fp8"
        width = 1.0 if self.training.float8_all_gather or quantised else self.behaviour.element_bytes
        shard, _ = self._shard_places()
        dense = self.parts.dense_params * width / cut
        t, up, out, channels, hbm = self._in_lists("all_gather", dense, GATHER_PASSES, shard)
        if self.parts.expert_params.any():
            t2, up2, out2, _, hbm2 = self._run(
                "all_gather", self.parts.expert_params * width / cut, self.parts.expert_dp_place
            )
            t, up, out, hbm = t + t2, up + up2, out + out2, hbm + hbm2
        return t, up, out, t * min(channels / self.cluster.device.num_sms, 0.5), hbm

    def gather_seconds(self) -> Floats:
        """Whole parameter gather per virtual stage."""
        return self.gather(1.0)[0]

    def tied_seconds(self, p: int) -> float:
        """All-reduce of the shared embedding's gradient between the first and the last stage."""
        own = self.parts.graph.embedding.params / self.plan.tp * self.options.grad_bytes
        place = placement(2, self.parts.mesh.strides["pp"] * (p - 1), self.cluster.scale_up_domain)
        return float(self.parts.network.collective("all_reduce", own, place, axis="pp").alone_s)

    def update_bytes(self) -> float:
        """Bytes of device memory that one parameter's update moves."""
        b, t = self.behaviour, self.training
        return optimizer_bytes(
            t.optimizer, b.master_copy_bytes(t.master_weights), b.grad_buffer_bytes, b.weight_bytes
        )  # fmt: skip

    def state_bytes(self) -> float:
        """Bytes of optimizer state and master weights of one parameter."""
        b, t = self.behaviour, self.training
        states = b.state_bytes if t.optimizer == "adam" else OPTIMIZER_STATE_BYTES[t.optimizer]
        return states + b.master_copy_bytes(t.master_weights)

    def updated(self) -> Floats:
        """Parameters of each virtual stage that one device updates, shape (K,)."""
        shard = self.plan.shard_group if self.plan.zero and self.behaviour.shard_optimizer else 1
        eshard = min(self.edp, shard) if shard > 1 else 1
        local: Floats = (self.parts.dense_params / shard + self.parts.expert_params / eshard) * self.trainable
        return local

    def host_update(self) -> HostUpdate:
        """What one parameter's update takes where its state lives."""
        b = self.behaviour
        return HostUpdate.of(
            self.cluster, self.plan.offload, moved=self.update_bytes(), state=self.state_bytes(),
            gradient=b.grad_buffer_bytes, weight=b.weight_bytes,
        )  # fmt: skip

    def optimizer_seconds(self, coefficients: Coefficients, stage_of: Rows, p: int) -> Floats:
        """Optimizer update per stage: what follows the last gradient, but for what the step's tasks spell out."""
        per_stage = np.bincount(stage_of, weights=self.updated(), minlength=p)
        offload, per = self.plan.offload, self.update_bytes()
        away = offload.optimizer
        slower = np.array([optimizer_time_s(self.cluster.device, coefficients, x * (1 - away), per) for x in per_stage])
        if away and not spelt_out(offload):
            slower = np.maximum(slower, per_stage * away * self.host_update().seconds(offload))
        return slower + coefficients.step_overhead_s + self.training.input_s


@dataclass(frozen=True, slots=True)
class Reduced:
    """The gradient reductions that end a step: one for each piece of each virtual stage. Shapes (n,)."""

    ids: Rows
    part: Rows
    piece: Rows
    key: Floats
    """Place in launch order."""
    pieces: Rows
    """(K,): pieces of each virtual stage."""


def bucketed_traffic(
    asm: Assembly, parts: Parts, traffic: Traffic, options: StepOptions, part: Rows, row: Rows,
    first_f: Rows, reduced: Rows, first_task: Rows, pieces: Rows, table: InstructionTable, finish: list[list[int]],
) -> Reduced:  # fmt: skip
    """DDP, ZeRO-1 and ZeRO-2: gradient buckets after the last backward, parameter buckets before the first forward."""
    k_total = len(parts.layers)
    stage_of = table.placement[:, 0]
    buckets = traffic.bucket_counts()  # a step may run in finer pieces than buckets, never in coarser ones
    if options.overlap_grad_reduce:
        count = buckets[part[reduced]]
        cuts = np.ones(k_total, np.int64)
        cuts[part[reduced]] = count
        t, up, out, sm, hbm = traffic.reduce(cuts)
        of_row = np.repeat(reduced, count)
        k = part[of_row]
        last = np.cumsum(count) - 1
        j = np.arange(len(k)) - np.repeat(last + 1 - count, count)
        full = -(-(j + 1) * pieces[of_row] // np.repeat(count, count)) - 1  # the piece that fills bucket j
        key = of_row * 4096.0 + full * 4 + 2
        ids = asm.add(
            key, stage_of[k], S_REDUCE, t[k], T_REDUCE, row=of_row, sm=sm[k], hbm=hbm[k],
            up=up[k], out=out[k],
        )  # fmt: skip
        asm.depend(ids, first_task[of_row] + full)
        latest = np.zeros(k_total, np.int64)
        np.maximum.at(latest, k, ids)
        for stage, task in zip(stage_of.tolist(), latest.tolist(), strict=True):
            finish[stage].append(task)
        if options.reduce_every_micro_batch:  # backward ends when its reduction has: what follows waits
            following = np.minimum(reduced + 1, len(table) - 1)
            same = (table.stage[following] == table.stage[reduced]) & (following > reduced)
            asm.depend(first_task[following[same]], ids[last[same]])
        final = of_row == _last_rows(k, of_row, k_total)[k]
        ended = Reduced(ids[final], k[final], j[final], key[final], cuts)
    else:
        t, up, out, sm, hbm = traffic.reduce(1.0)
        n = len(table)
        every = np.zeros(k_total, np.int64)
        for s in range(table.p):
            mine = np.flatnonzero(stage_of == s)
            ids = asm.add(
                np.full(len(mine), n * 4096.0 + 1), s, S_REDUCE, t[mine], T_REDUCE, sm=sm[mine], hbm=hbm[mine],
                up=up[mine], out=out[mine],
            )  # fmt: skip
            asm.depend(ids, finish[s][0])
            finish[s].append(int(ids[-1]))
            every[mine] = ids
        parts_of = np.arange(k_total)
        ended = Reduced(every, parts_of, 0 * parts_of, np.full(k_total, n * 4096.0 + 1), 0 * parts_of + 1)
    if traffic.gather_at_start:
        t, up, out, sm, hbm = traffic.gather(buckets)
        k = np.repeat(np.arange(k_total), buckets)
        j = np.arange(len(k)) - np.repeat(np.cumsum(buckets) - buckets, buckets)
        needed = j * pieces[first_f[k]] // buckets[k]  # the piece that needs bucket j first
        ids = asm.add(
            first_f[k] * 4096.0 + needed * 4, stage_of[k], S_GATHER, t[k], T_GATHER, row=first_f[k], sm=sm[k],
            hbm=hbm[k], up=up[k], out=out[k],
        )  # fmt: skip
        asm.depend(first_task[first_f[k]] + needed, ids)
    return ended


def _last_rows(part: Rows, row: Rows, k_total: int) -> Rows:
    """Last instruction of each virtual stage, shape (K,)."""
    out = np.full(k_total, -1)
    np.maximum.at(out, part, row)
    return out


def _first_of_block(table: InstructionTable) -> npt.NDArray[np.bool_]:
    """Rows that need parameters which are not there: the first of each block.

    A backward finds those of the chunk that its stage has just run forward.
    """
    block = block_of(table)
    rows = np.flatnonzero(block >= 0)
    first = np.zeros(len(table), np.bool_)
    first[rows[np.unique(block[rows], return_index=True)[1]]] = True
    held = np.full(table.p, -1)  # chunk of the latest forward of each stage
    for row in rows.tolist():
        s = int(table.stage[row])
        if table.kind[row] == F:
            held[s] = table.chunk[row]
        elif held[s] == table.chunk[row]:
            first[row] = False
    return first


def _last_of_block(table: InstructionTable) -> npt.NDArray[np.bool_]:
    """Rows after which the gradients of a block of backwards are complete."""
    block = block_of(table)
    mine = np.flatnonzero(table.kind == B)
    ends = mine
    if table.split_backward:  # the weight gradient of the same micro-batch and chunk
        key = (table.stage.astype(np.int64) * table.v + table.chunk) * table.m + table.micro_batch
        weights = np.flatnonzero(table.kind == W)
        order = np.argsort(key[weights])
        ends = weights[order[np.searchsorted(key[weights][order], key[mine])]]
    last = np.zeros(int(block.max(initial=0)) + 1, np.int64)
    np.maximum.at(last, block[mine], ends)
    out = np.zeros(len(table), np.bool_)
    out[last[np.unique(block[mine])]] = True
    return out


def sharded_traffic(
    asm: Assembly, parts: Parts, traffic: Traffic, options: StepOptions, plan: ResolvedPlan, kind: Rows, part: Rows,
    row: Rows, compute: Rows, table: InstructionTable, finish: list[list[int]], m: int,
) -> tuple[Reduced, Rows]:  # fmt: skip
    """ZeRO-3/FSDP: gather each layer before it runs, forward and backward; scatter its gradient after backward.

    Returns:
        The reductions that end a step, and of each compute task the gather before it (−1 for none).
    """
    pieces = np.maximum(parts.layers, 1)
    first, second = traffic.gather(pieces), traffic.gather(pieces, again=True)
    rt, rup, rout, rsm, rhbm = traffic.reduce(pieces)
    xt, xout = traffic.between_slices(pieces)
    zt, zup, zout = traffic.once_a_step(pieces)
    of_task = part[row]
    task_kind = kind[row]
    backward = traffic.trainable > 0  # else the passes of a step of zeroth order
    needs = (task_kind == F) | ((task_kind == B) & plan.reshard_after_forward & backward)
    if not plan.reshard_after_forward:  # gathered once, for the first micro-batch's forward
        needs = (task_kind == F) & (table.micro_batch[row] == 0)
    # the last forward layer of a micro-batch is still gathered when its backward starts
    stage = table.stage[row]
    previous = np.concatenate([[-1], task_kind[:-1]])
    turned = (task_kind == B) & (previous == F) & (np.concatenate([[-1], stage[:-1]]) == stage)
    needs &= ~turned
    if plan.gather_block:
        needs &= _first_of_block(table)[row]
    g = np.flatnonzero(needs)
    k = of_task[g]
    late = options.gather_exposed if traffic.lists is None else 1.0  # each gather waits for the whole device
    ahead = 1.0 - late
    gather_host, reduce_host = traffic.launched()
    twice = np.ones(len(g))
    if traffic.lists is not None and plan.recompute.policy == "full":
        twice += traffic.lists.again * (task_kind[g] == B)
    in_backward = task_kind[g] == B
    by_kind = [np.where(in_backward, b[k], f[k]) * twice for f, b in zip(first, second, strict=True)]
    whole = [by_kind[i] for i in (0, 3, 4, 1, 2)]  # seconds, SMs, memory, scale-up, scale-out
    t, sm, hbm, up, out = (column * ahead for column in whole)
    ids = asm.add(g * 1.0, stage[g], S_GATHER, t, T_GATHER, row=row[g], sm=sm, hbm=hbm, up=up, out=out)
    asm.depend(compute[g], ids)
    waits = ids
    if late:
        t, sm, hbm, up, out = (column * late for column in whole)
        waits = asm.add(
            g + 0.25, stage[g], S_GATHER, t + gather_host * twice, T_GATHER, row=row[g], sm=sm, hbm=hbm, up=up, out=out,
        )  # fmt: skip
        asm.depend(compute[g], waits)
        inner = (g >= 1) & (stage[np.maximum(g - 1, 0)] == stage[g])
        asm.depend(waits[inner], compute[g[inner] - 1])
    depth = options.prefetch_depth if options.fsdp_prefetch else 1
    back = g - depth
    ok = (back >= 0) & (stage[np.maximum(back, 0)] == stage[g])
    asm.depend(ids[ok], compute[back[ok]])
    reduces = (task_kind == B) & backward
    if not options.sync_every_micro_batch or not plan.reshard_after_forward:
        reduces &= table.micro_batch[row] == m - 1
    if plan.gather_block:
        reduces = _last_of_block(table)[row]
    r = np.flatnonzero(reduces)
    k = of_task[r]
    ends = table.micro_batch[row[r]] == m - 1  # pieces whose reduction goes through all levels
    zt, zup, zout = (np.where(ends, column[k], 0.0) for column in (zt, zup, zout))
    if late or xt.any():  # host transfers are synchronous in the loop over layers
        waited = asm.add(
            r * 1.0, stage[r], S_REDUCE, rt[k] * late + xt[k] + reduce_host, T_REDUCE, row=row[r],
            sm=rsm[k] * late, hbm=rhbm[k] * late, up=rup[k] * late, out=rout[k] * late + xout[k],
        )  # fmt: skip
        asm.depend(waited, compute[r])
        following = np.minimum(r + 1, len(compute) - 1)
        inner = (following > r) & (stage[following] == stage[r])
        asm.depend(compute[following[inner]], waited[inner])
        if traffic.lists is not None:  # and so is the next gather, which waits for this reduction
            fetch = np.full(len(compute), -1, np.int64)
            fetch[g] = waits
            own = fetch[following[inner]]
            asm.depend(own[own >= 0], waited[inner][own >= 0])
    rid = asm.add(
        r + 0.25, stage[r], S_REDUCE, rt[k] * ahead + zt, T_REDUCE, row=row[r], sm=rsm[k] * ahead, hbm=rhbm[k] * ahead,
        up=rup[k] * ahead + zup, out=rout[k] * ahead + zout,
    )  # fmt: skip
    asm.depend(rid, compute[r])
    for s in range(table.p):
        mine = np.flatnonzero(stage[r] == s)
        if len(mine):
            finish[s].append(int(rid[mine[-1]]))
    final = table.micro_batch[row[r]] == m - 1
    if plan.gather_block:
        final = row[r] >= _last_rows(k, row[r], len(parts.layers))[k]
    r, k = r[final], k[final]
    nth = np.arange(len(r)) - np.searchsorted(row[r], row[r])  # rows rise along r
    first_gather = np.full(len(compute), -1, np.int64)
    first_gather[g] = ids
    return Reduced(rid[final], k, nth, r + 0.25, pieces), first_gather
