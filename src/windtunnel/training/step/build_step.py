"""The step program: a pipeline schedule's instructions, the hops between stages, data-parallel traffic, the optimizer.

Everything is built with array arithmetic; a step of 66,000 instructions takes milliseconds. Rates and streams belong to
pipeline stages, which are the rank classes of a symmetric step: tests compare them with the coarsest equitable
partition of all ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Int32s, Mask, Rows
from windtunnel.cost.coefficients import Coefficients
from windtunnel.cost.framework_defaults import Behaviour
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.program.tables import Resources, Streams, TaskTable
from windtunnel.schedules.table import B, F, InstructionTable, W
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.workload import TrainingSpec
from windtunnel.techniques.step_options import StepOptions
from windtunnel.training.data_parallel.comm_costs import DataParallelComm
from windtunnel.training.offload.host_optimizer import spelt_out
from windtunnel.training.stage_costs.stage_costs import StageCosts
from windtunnel.training.step.cross_group_reduction import CrossGroupNetwork, join
from windtunnel.training.step.data_parallel_tasks import (
    FinalReductions,
    averaged_traffic,
    bucketed_traffic,
    sharded_traffic,
)
from windtunnel.training.step.forward_backward_overlap import OverlappedPair, pairs_of
from windtunnel.training.step.host_optimizer_tasks import beside_backward, early_gradients, shared_update
from windtunnel.training.step.offload_tasks import offload_traffic
from windtunnel.training.step.replica_tasks import ReplicaGroup, ReplicaTasks
from windtunnel.training.step.single_controller import dispatch
from windtunnel.training.task_builder import (
    S_COMPUTE,
    S_GATHER,
    S_PP,
    S_REDUCE,
    T_BARRIER,
    T_F,
    T_GATHER,
    T_OPTIMIZER,
    T_REDUCE,
    T_SEND,
    BuiltTables,
    TaskBuilder,
)

_LEAST_GAP = 0.003
"""Share of a piece below which its exposed transfers are not told apart."""
_FINE_TASKS = 20_000
"""Steps with fewer layer passes than this are simulated layer by layer; larger ones by whole model chunks, except where
traffic or offloading needs layers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepProgram:
    """The program and what each task stands for. Task arrays have shape (n,)."""

    tasks: TaskTable
    streams: Streams
    resources: Resources
    stage: Int32s
    row: Rows
    """Instruction row, −1 for what belongs to none."""
    first_task: Rows
    last_task: Rows
    """Per instruction row: its first and last compute task."""
    compute_task: Rows
    """Compute tasks row by row, piece by piece; row r owns `compute_task[piece_ptr[r]:piece_ptr[r + 1]]`."""
    piece_ptr: Rows
    part: Rows
    """Instruction row → virtual stage in depth order."""
    pair_of: Rows | None = None
    """Instruction row → kind of pair that it runs in, −1 for none; absent where no rows run in pairs."""
    pairs: tuple[OverlappedPair, ...] = ()


def build_step(
    parts: StageCosts,
    table: InstructionTable,
    plan: ResolvedPlan,
    cluster: ClusterSpec,
    training: TrainingSpec,
    coefficients: Coefficients,
    behaviour: Behaviour,
    options: StepOptions,
) -> StepProgram:
    """One optimizer step as tasks."""
    traffic = DataParallelComm(parts, plan, cluster, training, behaviour, options)
    return build_joint(
        [
            ReplicaGroup(
                stages=parts, schedule=table, plan=plan, cluster=cluster, coefficients=coefficients, traffic=traffic
            )
        ]
    )[0]


def build_joint(replicas: list[ReplicaGroup], between: CrossGroupNetwork | None = None) -> list[StepProgram]:
    """One optimizer step of replicas that need not be alike: one program, seen from each of them.

    Args:
        replicas: at least one; where there are more, all have the same stages.
        between: joins their gradients.
    """
    asm = TaskBuilder()
    laid: list[ReplicaTasks] = []
    for one in replicas:
        asm.begin(sum(x.schedule.p for x in replicas[: len(laid)]))
        laid.append(_lay(asm, one))
    if between is not None:
        join(asm, laid, between)
    big = (max(len(one.schedule) for one in replicas) + 1) * 4096.0
    for x in laid:
        _tied(asm, x, big)
    beside = [_gradients(asm, x) for x in laid]
    asm.begin(0, 0)
    barrier = asm.add(big + 1, 0, S_GATHER, 0.0, T_BARRIER)
    everything = np.array([t + x.first_id for x in laid for stage in x.finish for t in stage])
    asm.depend(np.full(len(everything), barrier[0]), everything)
    for x, ends in zip(laid, beside, strict=True):
        _update(asm, x, barrier, big, ends)
    built = asm.build(np.concatenate([one.capacity for one in replicas]))
    return [_seen(built, asm, x) for x in laid]


def _lay(asm: TaskBuilder, x: ReplicaGroup) -> ReplicaTasks:
    """Instructions, hops, data-parallel traffic and offloading of some replicas."""
    parts, table, plan, traffic = x.stages, x.schedule, x.plan, x.traffic
    options = traffic.options
    p, m, n = table.p, table.m, len(table)
    k_total, depth = len(parts.layers), table.depth
    kind = table.kind.astype(np.int64)
    part_of = np.zeros((p, table.v), np.int64)
    part_of[table.placement[:, 0], table.placement[:, 1]] = np.arange(k_total)
    part = part_of[table.stage, table.chunk]
    row_of = np.full((3, k_total, m), -1, np.int64)
    row_of[kind, part, table.micro_batch] = np.arange(n)
    stage_of = table.placement[:, 0].astype(np.int64)
    split = table.split_backward
    last_kind = W if split else B

    pieces = np.ones(n, np.int64)
    rows = np.arange(n)
    first_f = np.full(k_total, n)
    np.minimum.at(first_f, part[kind == F], rows[kind == F])
    last_b = np.full(k_total, -1)
    np.maximum.at(last_b, part[kind == last_kind], rows[kind == last_kind])
    buckets = traffic.bucket_counts()
    reduced = np.flatnonzero(kind == last_kind) if options.reduce_every_micro_batch else last_b
    sharded = plan.zero == 3 and traffic.replicated
    layers = np.maximum(parts.layers, 1).astype(np.int64)
    away = plan.offload
    offloads = away.activations > 0 or away.params > 0
    leaves = away.gradients > 0 or (spelt_out(away) and away.update == "beside_backward")
    by_layer = sharded or offloads or leaves or n * int(layers.max()) <= _FINE_TASKS
    if by_layer:
        pieces[kind != W] = layers[part[kind != W]]
    if traffic.replicated and not sharded:
        if options.overlap_grad_reduce:
            pieces[reduced] = np.maximum(pieces[reduced], buckets[part[reduced]])
        if traffic.gather_at_start:
            pieces[first_f] = np.maximum(pieces[first_f], buckets)

    first_task = np.concatenate([[0], np.cumsum(pieces)[:-1]])
    last_task = first_task + pieces - 1
    row = np.repeat(rows, pieces)
    piece = np.arange(len(row)) - first_task[row]
    of_row_pieces = pieces[row]
    head = np.where(part % depth == depth - 1, parts.head_s[kind], 0.0)
    ends = np.where(part % depth == 0, parts.embedding_s[kind], 0.0)
    body = parts.seconds[kind, part] - head - ends
    duration = body[row] / of_row_pieces
    backward = kind[row] != F
    at_first, at_last = piece == 0, piece == of_row_pieces - 1
    duration = duration + np.where(np.where(backward, at_first, at_last), head[row], 0.0)
    duration = duration + np.where(np.where(backward, at_last, at_first), ends[row], 0.0)
    if parts.factor is not None:
        duration = duration * parts.factor[kind, part, table.micro_batch][row]
    unit_first, unit_last = table.units()
    pair_of: Rows | None = None
    pairs: tuple[OverlappedPair, ...] = ()
    if table.joined is not None:
        pair_of, pairs = pairs_of(parts, table, part, x.cluster, x.coefficients)
        factor = np.array([one.seconds / one.alone_s if one.alone_s else 1.0 for one in pairs] + [1.0])
        duration = duration * factor[pair_of[row]]
    # rates matter only where data-parallel traffic can run beside: first and last micro-batches, all under ZeRO-3
    always = sharded or options.reduce_every_micro_batch
    beside = np.ones(n, np.bool_) if always else (table.micro_batch < p) | (table.micro_batch >= m - p)
    busy = (beside & (traffic.replicated) & (options.overlap_grad_reduce or traffic.gather_at_start or sharded))[row]
    share = np.where(busy, duration / np.maximum(parts.seconds[kind, part][row], 1e-30), 0.0)

    base = row * 4096.0 + piece * 4.0
    # where other traffic runs beside, a piece is a phase of kernels, which give way to it, and one of exposed transfers
    gap = np.where(share > 0, duration * parts.gap_share()[kind, part][row], 0.0)
    gap = np.where(gap > _LEAST_GAP * duration, gap, 0.0)
    if pair_of is not None:  # its exchanges run beside kernels already
        gap = np.where(pair_of[row] >= 0, 0.0, gap)
    split_up = gap > 0
    carries = np.where(split_up, 0.0, share)
    sm = np.where(split_up, duration - gap, parts.sm_s[kind, part][row] * share)
    compute = asm.add(
        base + 1,
        table.stage[row],
        S_COMPUTE,
        duration - gap,
        T_F,
        row=row,
        sm=sm,
        hbm=parts.hbm_bytes[kind, part][row] * share,
        up=parts.up_bytes[kind, part][row] * carries,
        out=parts.out_bytes[kind, part][row] * carries,
    )
    if split_up.any():
        i = np.flatnonzero(split_up)
        r = row[i]
        tails = asm.add(
            base[i] + 1.5,
            table.stage[r],
            S_COMPUTE,
            gap[i],
            T_F,
            row=r,
            up=parts.up_bytes[kind, part][r] * share[i],
            out=parts.out_bytes[kind, part][r] * share[i],
        )
        asm.ends_with(compute[i], tails)

    begin = first_task[unit_first]
    arrival = last_task[unit_last]  # id of the task after which a row's result is at the next stage
    before, after = (near[part, table.micro_batch] for near in table.neighbours())
    hop = _hops(table, before, after, stage_of)
    if hop.any():
        send = np.flatnonzero(hop)
        target = np.where(kind[send] == F, after[send], before[send])
        seconds, up, out = x.hops(stage_of[part[send]], stage_of[target])
        sends = asm.add(
            unit_last[send] * 4096.0 + 4090 + 0.1 * (send - unit_first[send]),
            table.stage[send],
            S_PP if options.overlap_p2p else S_COMPUTE,
            seconds,
            T_SEND,
            row=send,
            up=np.where(beside[send], up, 0.0),
            out=np.where(beside[send], out, 0.0),
        )
        asm.depend(sends, arrival[send])
        arrival[send] = sends
    if x.traffic.training.controller is not None:
        begin = dispatch(asm, x.traffic.training.controller, table, begin, last_task)
    for direction, origin in ((F, before), (B, after)):
        here = np.flatnonzero((kind == direction) & (origin >= 0))
        source = row_of[direction, origin[here], table.micro_batch[here]]
        asm.depend(begin[here], arrival[source])
    deepest = np.flatnonzero((kind == B) & (part % depth == depth - 1))
    asm.depend(begin[deepest], last_task[unit_last[row_of[F, part[deepest], table.micro_batch[deepest]]]])

    last_of_stage = np.array([last_task[table.stage_ptr[s + 1] - 1] for s in range(p)])
    finish = [[int(last_of_stage[s])] for s in range(p)]
    reduced_by: FinalReductions | None = None
    gathers = np.full(len(row), -1, np.int64)
    if sharded:
        reduced_by, gathers = sharded_traffic(
            asm, parts, traffic, options, plan, kind, part, row, compute, table, finish, m
        )
    elif traffic.local is not None:
        averaged_traffic(asm, traffic, table, finish)
    elif traffic.replicated:
        reduced_by = bucketed_traffic(
            asm, parts, traffic, options, part, row, first_f, reduced, first_task, pieces, table, finish
        )
    if offloads:
        offload_traffic(asm, parts, plan, x.cluster, kind, part, table, first_task, last_task, row_of, gathers)
    laid = ReplicaTasks(
        replicas=x,
        first_stage=asm.first_stage,
        first_id=asm.first_id,
        kind=kind,
        part=part,
        row=row,
        first_task=first_task,
        last_task=last_task,
        compute=compute,
        stage_of=stage_of,
        finish=finish,
        reduced=reduced_by,
        pair_of=pair_of,
        pairs=pairs,
    )
    if away.gradients > 0 and table.m > 1:
        early_gradients(asm, laid)
    return laid


def _tied(asm: TaskBuilder, x: ReplicaTasks, big: float) -> None:
    """The all-reduce of an embedding that the first and the last stage share."""
    p = x.replicas.schedule.p
    if not x.replicas.stages.graph.tied or p == 1:
        return
    asm.begin(x.first_stage, x.first_id)
    tied_s = x.replicas.traffic.tied_seconds(p)
    ends = (0, int(x.stage_of[x.replicas.schedule.depth - 1]))
    before = [np.array(x.finish[s]) for s in ends]
    for s in ends:
        task = asm.add(big, s, S_REDUCE, tied_s, T_REDUCE)
        for last in before:
            asm.depend(task, last)
        x.finish[s].append(int(task[0]))


def _gradients(asm: TaskBuilder, x: ReplicaTasks) -> list[Rows]:
    """The last gradients leave the device, and updates of the host beside backward; per stage what ends them."""
    away = x.replicas.plan.offload
    if not away.gradients and not (spelt_out(away) and away.update == "beside_backward"):
        return []
    asm.begin(x.first_stage, x.first_id)
    return beside_backward(asm, x)


def _update(asm: TaskBuilder, x: ReplicaTasks, barrier: Rows, big: float, ends: list[Rows]) -> None:
    """The optimizer of every stage, and the gathers that follow it; `ends`: what has to be done before, by stage."""
    p, traffic, plan = x.replicas.schedule.p, x.replicas.traffic, x.replicas.plan
    asm.begin(x.first_stage, x.first_id)
    if spelt_out(plan.offload) and plan.offload.update != "beside_backward":
        ends = shared_update(asm, x.replicas, x.stage_of, barrier - x.first_id, big + 1.5)
    updates = asm.add(
        np.full(p, big + 2), np.arange(p), S_COMPUTE, x.replicas.optimizer_seconds(x.stage_of), T_OPTIMIZER
    )
    asm.depend(updates, barrier[0] - x.first_id)
    for s, tasks in enumerate(ends):
        asm.depend(updates[s], tasks)
    if traffic.replicated and plan.zero in (1, 2) and not traffic.gather_at_start and traffic.behaviour.shard_optimizer:
        chunk_gather = np.bincount(x.stage_of, weights=traffic.gather_seconds(), minlength=p)
        final_gather = asm.add(np.full(p, big + 3), np.arange(p), S_GATHER, chunk_gather, T_GATHER)
        asm.depend(final_gather, updates)
    elif traffic.replicated and plan.levels is not None:
        refreshed = np.bincount(x.stage_of, weights=traffic.refreshed(), minlength=p)
        if refreshed.any():
            asm.depend(asm.add(np.full(p, big + 3), np.arange(p), S_GATHER, refreshed, T_GATHER), updates)


def _seen(built: BuiltTables, asm: TaskBuilder, x: ReplicaTasks) -> StepProgram:
    """The program as some replicas see it: tasks of others have no stage and no row."""
    p = x.replicas.schedule.p
    own = (built.stage >= x.first_stage) & (built.stage < x.first_stage + p)
    row = np.where(own, built.row, -1)
    tag = built.tasks.tag
    is_compute = own & (tag == T_F)
    tag[is_compute] = x.kind[row[is_compute]].astype(np.int32)
    final = built.final
    return StepProgram(
        tasks=built.tasks,
        streams=built.streams,
        resources=built.resources,
        stage=np.where(own, built.stage - x.first_stage, -1).astype(np.int32),
        row=row,
        first_task=final[x.first_task + x.first_id],
        last_task=final[asm.end_of()[x.last_task + x.first_id]],
        compute_task=final[x.compute + x.first_id],
        piece_ptr=np.append(x.first_task, len(x.row)),
        part=x.part,
        pair_of=x.pair_of,
        pairs=x.pairs,
    )


def _hops(table: InstructionTable, before: Rows, after: Rows, stage_of: Rows) -> Mask:
    """Rows whose result goes to another stage; `before` and `after` are the parts beside each row's."""
    target = np.where(table.kind == F, after, np.where(table.kind == B, before, -1))
    hops: Mask = (target >= 0) & (stage_of[np.maximum(target, 0)] != table.stage)
    return hops
