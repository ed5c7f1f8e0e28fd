"""The step program: a pipeline schedule's instructions, the hops between stages, data-parallel traffic, the optimizer.

Everything is built with array arithmetic; a step of 66,000 instructions takes milliseconds. Rates and streams belong to
pipeline stages, which are the rank classes of a symmetric step (see `engine.symmetry` for the general partition).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from windtunnel.cost.coefficients import Behaviour, Coefficients
from windtunnel.cost.memory_bound import host_optimizer_time_s, optimizer_bytes, optimizer_time_s
from windtunnel.network.groups import GroupPlacement, placement
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.program.tables import Resources, Streams, TaskTable
from windtunnel.schedules.table import B, F, InstructionTable, W
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.workload import TrainingSpec
from windtunnel.techniques.step_options import StepOptions
from windtunnel.training.parts import Parts

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]

TAGS = ("forward", "backward", "weight grad", "pp send", "dp reduce", "dp gather", "optimizer", "barrier", "offload")
T_F, T_B, T_W, T_SEND, T_REDUCE, T_GATHER, T_OPTIMIZER, T_BARRIER, T_OFFLOAD = range(9)
STREAMS = ("compute", "pp", "dp reduce", "dp gather", "to host", "from host")
S_COMPUTE, S_PP, S_REDUCE, S_GATHER, S_TO_HOST, S_FROM_HOST = range(6)
_COMM_WEIGHT = 1e6
_FINE_TASKS = 20_000
"""Steps with fewer layer passes than this are simulated layer by layer; larger ones by whole model chunks, except where
traffic or offloading needs layers."""


@dataclass(frozen=True, slots=True)
class StepProgram:
    """The program and what each task stands for. Task arrays have shape (n,)."""

    tasks: TaskTable
    streams: Streams
    resources: Resources
    stage: npt.NDArray[np.int32]
    row: Rows
    """Instruction row, −1 for what belongs to none."""
    first_task: Rows
    last_task: Rows
    """Per instruction row: its first and last compute task."""
    compute_task: Rows
    """Compute tasks row by row, piece by piece; row r owns `compute_task[piece_ptr[r]:piece_ptr[r + 1]]`."""
    piece_ptr: Rows
    optimizer_s: float
    part: Rows
    """Instruction row → virtual stage in depth order."""


@dataclass(slots=True)
class _Group:
    """Columns of one batch of tasks before they are put in launch order."""

    key: Floats
    stage: Rows
    stream: npt.NDArray[np.int32]
    alone: Floats
    tag: int
    row: Rows
    sm: Floats
    hbm: Floats
    up: Floats
    out: Floats
    start: int = 0

    def __len__(self) -> int:
        return len(self.key)


class _Assembly:
    """Collects task groups and dependencies; `ids` are provisional until sorted."""

    def __init__(self) -> None:
        self.groups: list[_Group] = []
        self.count = 0
        self.task: list[Rows] = []
        self.dep: list[Rows] = []

    def add(
        self, key: npt.ArrayLike, stage: npt.ArrayLike, stream: int, alone: npt.ArrayLike, tag: int, *,
        row: npt.ArrayLike = -1, sm: npt.ArrayLike = 0.0, hbm: npt.ArrayLike = 0.0, up: npt.ArrayLike = 0.0,
        out: npt.ArrayLike = 0.0,
    ) -> Rows:  # fmt: skip
        """Add tasks (arguments broadcast) and return their provisional ids."""
        k = np.atleast_1d(np.asarray(key, np.float64))
        n = len(k)

        def full(value: npt.ArrayLike) -> Floats:
            return np.broadcast_to(np.asarray(value, np.float64), (n,))

        stages = np.broadcast_to(np.asarray(stage, np.int64), (n,))
        rows = np.broadcast_to(np.asarray(row, np.int64), (n,))
        group = _Group(
            k, stages, np.full(n, stream, np.int32), full(alone), tag, rows, full(sm), full(hbm), full(up), full(out),
            self.count,
        )  # fmt: skip
        self.groups.append(group)
        self.count += n
        return np.arange(group.start, self.count)

    def depend(self, task: npt.ArrayLike, dep: npt.ArrayLike) -> None:
        """`task[i]` starts after `dep[i]` (broadcast)."""
        t, d = np.broadcast_arrays(np.asarray(task, np.int64), np.asarray(dep, np.int64))
        self.task.append(t.ravel())
        self.dep.append(d.ravel())

    def build(
        self, p: int, capacity: Floats
    ) -> tuple[TaskTable, Streams, Resources, npt.NDArray[np.int32], Rows, Rows]:
        """Sort by (stage, key) and assemble the tables; also returns stages, rows and provisional → final ids."""

        def column(name: str) -> npt.NDArray[np.float64]:
            return np.concatenate([getattr(g, name) for g in self.groups])

        stage = column("stage").astype(np.int32)
        order = np.lexsort((column("key"), stage))
        final = np.empty(self.count, np.int64)
        final[order] = np.arange(self.count)
        tag = np.concatenate([np.full(len(g), g.tag, np.int32) for g in self.groups])[order]
        stage = stage[order]
        stream = (stage * len(STREAMS) + column("stream").astype(np.int32)[order]).astype(np.int32)
        task = final[np.concatenate(self.task)] if self.task else np.zeros(0, np.int64)
        dep = final[np.concatenate(self.dep)] if self.dep else np.zeros(0, np.int64)
        by_task = np.argsort(task, kind="stable")
        dep_ptr = np.zeros(self.count + 1, np.int64)
        np.cumsum(np.bincount(task, minlength=self.count), out=dep_ptr[1:])
        work = np.stack([column(name)[order] for name in ("sm", "hbm", "up", "out")], axis=1)
        alone = column("alone")[order]
        per_stage = capacity[None, :]
        work = np.minimum(work, alone[:, None] * per_stage)
        used = work > 0
        rate_ptr = np.zeros(self.count + 1, np.int64)
        np.cumsum(used.sum(axis=1), out=rate_ptr[1:])
        idx = (stage[:, None] * 4 + np.arange(4, dtype=np.int32)[None, :])[used].astype(np.int32)
        zero = np.zeros(self.count, np.int32)
        compute = (stream % len(STREAMS)) == S_COMPUTE
        tasks = TaskTable(
            alone, np.where(compute, 1.0, _COMM_WEIGHT), stage, tag, np.arange(self.count + 1, dtype=np.int64), stream,
            dep_ptr, dep[by_task].astype(np.int32), rate_ptr, idx, work[used], np.full(self.count, -1, np.int32), zero,
            zero, zero, TAGS,
        )  # fmt: skip
        streams = Streams(
            np.zeros(p * len(STREAMS), np.int32), np.repeat(np.arange(p, dtype=np.int32), len(STREAMS)), STREAMS * p
        )
        resources = Resources(np.tile(capacity, p), ("sm", "hbm", "scale-up", "scale-out") * p)
        return tasks, streams, resources, stage, column("row").astype(np.int64)[order], final


def build_step(
    parts: Parts,
    table: InstructionTable,
    plan: ResolvedPlan,
    cluster: ClusterSpec,
    training: TrainingSpec,
    coefficients: Coefficients,
    behaviour: Behaviour,
    options: StepOptions,
) -> StepProgram:
    """One optimizer step as tasks."""
    p, m, n = table.p, table.m, len(table)
    k_total = len(parts.layers)
    kind = table.kind.astype(np.int64)
    part_of = np.zeros((p, table.v), np.int64)
    part_of[table.placement[:, 0], table.placement[:, 1]] = np.arange(k_total)
    part = part_of[table.stage, table.chunk]
    row_of = np.full((3, k_total, m), -1, np.int64)
    row_of[kind, part, table.micro_batch] = np.arange(n)
    stage_of = table.placement[:, 0].astype(np.int64)
    split = table.split_backward
    last_kind = W if split else B

    traffic = _Traffic(parts, plan, cluster, training, behaviour, options)
    pieces = np.ones(n, np.int64)
    rows = np.arange(n)
    first_f = np.full(k_total, n)
    np.minimum.at(first_f, part[kind == F], rows[kind == F])
    last_b = np.full(k_total, -1)
    np.maximum.at(last_b, part[kind == last_kind], rows[kind == last_kind])
    buckets = traffic.bucket_counts()
    reduced = np.flatnonzero(kind == last_kind) if options.reduce_every_micro_batch else last_b
    sharded = plan.zero == 3 and traffic.size > 1
    layers = np.maximum(parts.layers, 1).astype(np.int64)
    by_layer = sharded or plan.offload.activations > 0 or n * int(layers.max()) <= _FINE_TASKS
    if by_layer:
        pieces[kind != W] = layers[part[kind != W]]
    if traffic.size > 1 and not sharded:
        if options.overlap_grad_reduce:
            pieces[reduced] = np.maximum(pieces[reduced], buckets[part[reduced]])
        if traffic.gather_at_start:
            pieces[first_f] = np.maximum(pieces[first_f], buckets)

    first_task = np.concatenate([[0], np.cumsum(pieces)[:-1]])
    last_task = first_task + pieces - 1
    row = np.repeat(rows, pieces)
    piece = np.arange(len(row)) - first_task[row]
    of_row_pieces = pieces[row]
    head = np.where((part == k_total - 1), parts.head_s[kind], 0.0)
    ends = np.where(part == 0, parts.embedding_s[kind], 0.0)
    body = parts.seconds[kind, part] - head - ends
    duration = body[row] / of_row_pieces
    backward = kind[row] != F
    at_first, at_last = piece == 0, piece == of_row_pieces - 1
    duration = duration + np.where(np.where(backward, at_first, at_last), head[row], 0.0)
    duration = duration + np.where(np.where(backward, at_last, at_first), ends[row], 0.0)
    # rates matter only where data-parallel traffic can run beside: first and last micro-batches, all under ZeRO-3
    always = sharded or options.reduce_every_micro_batch
    beside = np.ones(n, np.bool_) if always else (table.micro_batch < p) | (table.micro_batch >= m - p)
    busy = (beside & (traffic.size > 1) & (options.overlap_grad_reduce or traffic.gather_at_start or sharded))[row]
    share = np.where(busy, duration / np.maximum(parts.seconds[kind, part][row], 1e-30), 0.0)

    asm = _Assembly()
    base = row * 4096.0 + piece * 4.0
    compute = asm.add(
        base + 1, table.stage[row], S_COMPUTE, duration, T_F, row=row, sm=parts.sm_s[kind, part][row] * share,
        hbm=parts.hbm_bytes[kind, part][row] * share, up=parts.up_bytes[kind, part][row] * share,
        out=parts.out_bytes[kind, part][row] * share,
    )  # fmt: skip

    arrival = last_task.copy()  # id of the task after which a row's result is at the next stage
    hop = _hops(table, part, stage_of, k_total)
    if hop.any():
        send = np.flatnonzero(hop)
        target = np.where(kind[send] == F, part[send] + 1, part[send] - 1)
        seconds, up, out = _hop_seconds(parts, plan, cluster, stage_of[part[send]], stage_of[target])
        sends = asm.add(
            send * 4096.0 + 4090, table.stage[send], S_PP if options.overlap_p2p else S_COMPUTE, seconds, T_SEND,
            row=send, up=np.where(beside[send], up, 0.0), out=np.where(beside[send], out, 0.0),
        )  # fmt: skip
        asm.depend(sends, last_task[send])
        arrival[send] = sends
    for direction, shift in ((F, -1), (B, 1)):
        here = np.flatnonzero(kind == direction)
        source_part = part[here] + shift
        ok = (source_part >= 0) & (source_part < k_total)
        source = row_of[direction, source_part[ok], table.micro_batch[here[ok]]]
        asm.depend(first_task[here[ok]], arrival[source])
    deepest = np.flatnonzero((kind == B) & (part == k_total - 1))
    asm.depend(first_task[deepest], last_task[row_of[F, k_total - 1, table.micro_batch[deepest]]])

    last_of_stage = np.array([last_task[table.stage_ptr[s + 1] - 1] for s in range(p)])
    finish = [[int(last_of_stage[s])] for s in range(p)]
    if sharded:
        _sharded_traffic(asm, parts, traffic, options, plan, kind, part, row, compute, table, finish, m)
    elif traffic.size > 1:
        _bucketed_traffic(
            asm, parts, traffic, options, part, row, piece, first_f, reduced, first_task, pieces, table, finish
        )
    if plan.offload.activations > 0:
        _offload_activations(asm, parts, plan, cluster, kind, part, table, first_task, last_task, row_of)
    big = (n + 1) * 4096.0
    if parts.graph.tied and p > 1:
        tied_s = traffic.tied_seconds(p)
        for s in (0, int(stage_of[-1])):
            task = asm.add(big, s, S_REDUCE, tied_s, T_REDUCE)
            for other in (0, int(stage_of[-1])):
                asm.depend(task, np.array(finish[other]))
            finish[s].append(int(task[0]))
    barrier = asm.add(big + 1, 0, S_GATHER, 0.0, T_BARRIER)
    everything = np.array([t for stage in finish for t in stage])
    asm.depend(np.full(len(everything), barrier[0]), everything)
    optimizer_s = traffic.optimizer_seconds(coefficients, stage_of, p)
    updates = asm.add(np.full(p, big + 2), np.arange(p), S_COMPUTE, optimizer_s, T_OPTIMIZER)
    asm.depend(updates, barrier[0])
    if traffic.size > 1 and plan.zero in (1, 2) and not traffic.gather_at_start and behaviour.shard_optimizer:
        chunk_gather = np.bincount(stage_of, weights=traffic.gather_seconds(), minlength=p)
        final_gather = asm.add(np.full(p, big + 3), np.arange(p), S_GATHER, chunk_gather, T_GATHER)
        asm.depend(final_gather, updates)
    capacity = np.array(
        [1.0, cluster.device.memory_bytes_per_s, cluster.scale_up.bytes_per_s, cluster.nic_bytes_per_s_per_device]
    )
    tasks, streams, resources, stage, rows_final, final = asm.build(p, capacity)
    tag = tasks.tag
    is_compute = tag == T_F
    tag[is_compute] = kind[rows_final[is_compute]].astype(np.int32)
    return StepProgram(
        tasks,
        streams,
        resources,
        stage,
        rows_final,
        final[first_task],
        final[last_task],
        final[compute],
        np.append(first_task, len(row)),
        float(optimizer_s.max()),
        part,
    )


def _offload_activations(
    asm: _Assembly, parts: Parts, plan: ResolvedPlan, cluster: ClusterSpec, kind: Rows, part: Rows,
    table: InstructionTable, first_task: Rows, last_task: Rows, row_of: Rows,
) -> None:  # fmt: skip
    """Copy kept activations to the host after forward and back before backward, over PCIe, beside computation.

    Layer by layer; the copy back may start two layers ahead. What the host link cannot hide delays computation.
    Source: Rajbhandari et al. 2021 (arXiv 2104.07857), section 5.1.
    """
    size = np.array([sum(kept.values()) for kept in parts.kept_bytes]) * plan.offload.activations
    rate = cluster.device.pcie_bytes_per_s * 0.85
    count = last_task - first_task + 1
    row = np.repeat(np.arange(len(kind)), count)
    piece = np.arange(len(row)) - first_task[row]
    seconds = size[part[row]] / count[row] / rate
    f, b = np.flatnonzero(kind[row] == F), np.flatnonzero(kind[row] == B)
    at = row * 4096.0 + piece * 4
    out = asm.add(at[f] + 2.5, table.stage[row[f]], S_TO_HOST, seconds[f], T_OFFLOAD, row=row[f])
    asm.depend(out, f)
    stored = np.full(len(row), -1, np.int64)
    stored[f] = out
    # backward runs the layers in reverse: it reads first what forward stored last
    twin = row_of[F, part[row[b]], table.micro_batch[row[b]]]
    source = first_task[twin] + (count[twin] * (count[row[b]] - 1 - piece[b])) // count[row[b]]
    back = asm.add(at[b] + 0.5, table.stage[row[b]], S_FROM_HOST, seconds[b], T_OFFLOAD, row=row[b])
    asm.depend(back, stored[source])
    before = b - 2
    ok = (before >= 0) & (table.stage[row[np.maximum(before, 0)]] == table.stage[row[b]])
    asm.depend(back[ok], before[ok])
    asm.depend(b, back)


def _hops(table: InstructionTable, part: Rows, stage_of: Rows, k_total: int) -> npt.NDArray[np.bool_]:
    """Rows whose result goes to another stage."""
    forward = (table.kind == F) & (part < k_total - 1)
    backward = (table.kind == B) & (part > 0)
    target = np.clip(np.where(table.kind == F, part + 1, part - 1), 0, k_total - 1)
    hops: npt.NDArray[np.bool_] = (forward | backward) & (stage_of[target] != table.stage)
    return hops


def _hop_seconds(
    parts: Parts, plan: ResolvedPlan, cluster: ClusterSpec, source: Rows, target: Rows
) -> tuple[Floats, Floats, Floats]:
    """Seconds and work of each hop. Under scatter-gather (no sequence parallelism) the receiver gathers over NVLink."""
    stride = parts.mesh.strides["pp"]
    domain = cluster.scale_up_domain
    cross = (source * stride) // domain != (target * stride) // domain
    near = parts.network.p2p(parts.p2p_bytes, False)
    far = parts.network.p2p(parts.p2p_bytes, True)
    extra = 0.0
    whole = parts.p2p_bytes * plan.tp
    if plan.tp > 1 and not plan.sp and parts.p2p_bytes * plan.tp > 0 and parts.scatter_gather:
        extra = float(parts.network.collective("all_gather", whole, parts.mesh.placement("tp")).alone_s)
    seconds = np.where(cross, float(far.alone_s) + extra, float(near.alone_s) + extra)
    up = np.where(cross, 0.0, float(near.work_scale_up_bytes))
    out = np.where(cross, float(far.work_scale_out_bytes), 0.0)
    return seconds, up, out


class _Traffic:
    """Seconds and work of data-parallel collectives per virtual stage."""

    def __init__(
        self, parts: Parts, plan: ResolvedPlan, cluster: ClusterSpec, training: TrainingSpec, behaviour: Behaviour,
        options: StepOptions,
    ) -> None:  # fmt: skip
        self.parts, self.plan, self.cluster, self.training, self.behaviour = parts, plan, cluster, training, behaviour
        self.options = options
        self.size = plan.dp * plan.cp
        self.edp = max(plan.expert_dp, 1)
        self.gather_at_start = options.overlap_param_gather and plan.zero in (1, 2) and behaviour.shard_optimizer
        self.trainable = parts.trainable_share

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
        domain = self.cluster.scale_up_domain
        return (
            placement(self.plan.shard_group, stride, domain),
            placement(self.size // self.plan.shard_group, stride * self.plan.shard_group, domain),
        )

    def _run(self, op: str, nbytes: Floats, place: GroupPlacement) -> tuple[Floats, Floats, Floats, float, Floats]:
        if float(place.size) <= 1:
            zero = np.zeros_like(nbytes)
            return zero, zero, zero, 0.0, zero
        one = self.parts.network.collective(op, nbytes, place)
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

    def reduce(self, pieces: npt.ArrayLike) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """One gradient bucket of each virtual stage: seconds, up, out, SM-seconds, HBM bytes."""
        cut = np.asarray(pieces, np.float64)
        grads = self.options.grad_bytes * self.trainable
        dense, expert = self.parts.dense_params * grads / cut, self.parts.expert_params * grads / cut
        shard, replicas = self._shard_places()
        zero = self.plan.zero if self.behaviour.shard_optimizer else 0
        op = "all_reduce" if zero == 0 else "reduce_scatter"
        t, up, out, channels, hbm = self._run(op, dense, shard)
        if replicas is not None:
            t2, up2, out2, _, hbm2 = self._run("all_reduce", dense / self.plan.shard_group, replicas)
            t, up, out, hbm = t + t2, up + up2, out + out2, hbm + hbm2
        if expert.any():
            t2, up2, out2, _, hbm2 = self._run(op, expert, self.parts.expert_dp_place)
            t, up, out, hbm = t + t2, up + up2, out + out2, hbm + hbm2
        return t, up, out, t * min(channels / self.cluster.device.num_sms, 0.5), hbm

    def gather(self, pieces: npt.ArrayLike) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """One parameter bucket of each virtual stage."""
        cut = np.asarray(pieces, np.float64)
        width = 1.0 if self.training.float8_all_gather else 2.0
        shard, _ = self._shard_places()
        t, up, out, channels, hbm = self._run("all_gather", self.parts.dense_params * width / cut, shard)
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
        return float(self.parts.network.collective("all_reduce", own, place).alone_s)

    def optimizer_seconds(self, coefficients: Coefficients, stage_of: Rows, p: int) -> Floats:
        """Optimizer update per stage."""
        b, t = self.behaviour, self.training
        master = {"fp32": 4.0, "bf16": 2.0, "none": 0.0}.get(t.master_weights or "", b.master_bytes)
        per = optimizer_bytes(t.optimizer, master, b.grad_buffer_bytes, b.param_bytes)
        shard = self.plan.shard_group if self.plan.zero and b.shard_optimizer else 1
        eshard = min(self.edp, shard) if shard > 1 else 1
        local = (self.parts.dense_params / shard + self.parts.expert_params / eshard) * self.trainable
        per_stage = np.bincount(stage_of, weights=local, minlength=p)
        away = self.plan.offload.optimizer
        on_device = np.array(
            [optimizer_time_s(self.cluster.device, coefficients, x * (1 - away), per) for x in per_stage]
        )
        on_host = np.zeros(p)
        if away:
            on_host = np.array(
                [
                    host_optimizer_time_s(self.cluster, x * away, per, b.grad_buffer_bytes, b.param_bytes)
                    for x in per_stage
                ]
            )
        slower: Floats = np.maximum(on_device, on_host)
        return slower + coefficients.step_overhead_s


def _bucketed_traffic(
    asm: _Assembly, parts: Parts, traffic: _Traffic, options: StepOptions, part: Rows, row: Rows, piece: Rows,
    first_f: Rows, reduced: Rows, first_task: Rows, pieces: Rows, table: InstructionTable, finish: list[list[int]],
) -> None:  # fmt: skip
    """DDP, ZeRO-1 and ZeRO-2: gradient buckets after the last backward, parameter buckets before the first forward."""
    k_total = len(parts.layers)
    stage_of = table.placement[:, 0]
    if options.overlap_grad_reduce:
        count = pieces[reduced]
        cuts = np.ones(k_total, np.int64)
        cuts[part[reduced]] = count
        t, up, out, sm, hbm = traffic.reduce(cuts)
        of_row = np.repeat(reduced, count)
        k = part[of_row]
        last = np.cumsum(count) - 1
        j = np.arange(len(k)) - np.repeat(last + 1 - count, count)
        ids = asm.add(
            of_row * 4096.0 + j * 4 + 2, stage_of[k], S_REDUCE, t[k], T_REDUCE, row=of_row, sm=sm[k], hbm=hbm[k],
            up=up[k], out=out[k],
        )  # fmt: skip
        asm.depend(ids, first_task[of_row] + j)
        for kk in range(k_total):
            finish[int(stage_of[kk])].append(int(ids[np.flatnonzero(k == kk)[-1]]))
        if options.reduce_every_micro_batch:  # backward ends when its reduction has: what follows waits
            following = np.minimum(reduced + 1, len(table) - 1)
            same = (table.stage[following] == table.stage[reduced]) & (following > reduced)
            asm.depend(first_task[following[same]], ids[last[same]])
    else:
        t, up, out, sm, hbm = traffic.reduce(1.0)
        n = len(table)
        for s in range(table.p):
            mine = np.flatnonzero(stage_of == s)
            ids = asm.add(
                np.full(len(mine), n * 4096.0 + 1), s, S_REDUCE, t[mine], T_REDUCE, sm=sm[mine], hbm=hbm[mine],
                up=up[mine], out=out[mine],
            )  # fmt: skip
            asm.depend(ids, finish[s][0])
            finish[s].append(int(ids[-1]))
    if traffic.gather_at_start:
        count = pieces[first_f]
        t, up, out, sm, hbm = traffic.gather(count)
        k = np.repeat(np.arange(k_total), count)
        j = np.arange(len(k)) - np.repeat(np.cumsum(count) - count, count)
        ids = asm.add(
            first_f[k] * 4096.0 + j * 4, stage_of[k], S_GATHER, t[k], T_GATHER, row=first_f[k], sm=sm[k], hbm=hbm[k],
            up=up[k], out=out[k],
        )  # fmt: skip
        asm.depend(first_task[first_f[k]] + j, ids)


def _sharded_traffic(
    asm: _Assembly, parts: Parts, traffic: _Traffic, options: StepOptions, plan: ResolvedPlan, kind: Rows, part: Rows,
    row: Rows, compute: Rows, table: InstructionTable, finish: list[list[int]], m: int,
) -> None:  # fmt: skip
    """ZeRO-3/FSDP: gather each layer before it runs, forward and backward; scatter its gradient after backward."""
    pieces = np.maximum(parts.layers, 1)
    stage_of = table.placement[:, 0]
    gt, gup, gout, gsm, ghbm = traffic.gather(pieces)
    rt, rup, rout, rsm, rhbm = traffic.reduce(pieces)
    of_task = part[row]
    task_kind = kind[row]
    needs = (task_kind == F) | ((task_kind == B) & plan.reshard_after_forward)
    if not plan.reshard_after_forward:  # gathered once, for the first micro-batch's forward
        needs = (task_kind == F) & (table.micro_batch[row] == 0)
    # the last forward layer of a micro-batch is still gathered when its backward starts
    stage = table.stage[row]
    previous = np.concatenate([[-1], task_kind[:-1]])
    turned = (task_kind == B) & (previous == F) & (np.concatenate([[-1], stage[:-1]]) == stage)
    needs &= ~turned
    g = np.flatnonzero(needs)
    k = of_task[g]
    ids = asm.add(
        g * 1.0, stage[g], S_GATHER, gt[k], T_GATHER, row=row[g], sm=gsm[k], hbm=ghbm[k], up=gup[k], out=gout[k]
    )  # fmt: skip
    asm.depend(compute[g], ids)
    depth = options.prefetch_depth if options.fsdp_prefetch else 1
    back = g - depth
    ok = (back >= 0) & (stage[np.maximum(back, 0)] == stage[g])
    asm.depend(ids[ok], compute[back[ok]])
    reduces = task_kind == B
    if not options.sync_every_micro_batch or not plan.reshard_after_forward:
        reduces &= table.micro_batch[row] == m - 1
    r = np.flatnonzero(reduces)
    k = of_task[r]
    rid = asm.add(
        r * 1.0, stage[r], S_REDUCE, rt[k], T_REDUCE, row=row[r], sm=rsm[k], hbm=rhbm[k], up=rup[k], out=rout[k]
    )
    asm.depend(rid, compute[r])
    for s in range(table.p):
        mine = np.flatnonzero(stage[r] == s)
        if len(mine):
            finish[s].append(int(rid[mine[-1]]))
    _ = stage_of
