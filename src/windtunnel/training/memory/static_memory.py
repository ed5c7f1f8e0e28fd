"""Where the time of a simulated step went, and what memory held when."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats, Int32s, Ints
from windtunnel.cost.coefficients import Behaviour, Coefficients
from windtunnel.cost.memory_bound import OPTIMIZER_STATE_BYTES
from windtunnel.engine import memory_curve
from windtunnel.graph import Kind
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.program.tables import MemoryEvents, Timeline
from windtunnel.schedules.table import B, F, InstructionTable, W
from windtunnel.specs.workload import TrainingSpec
from windtunnel.training.data_parallel.gradient_compression import CompressedExchange, Shapes
from windtunnel.training.memory.reserved_memory import reserved_memory
from windtunnel.training.results.training_result import MemoryReport
from windtunnel.training.stage_costs.stage_costs import HEAD, StageCosts
from windtunnel.training.step.build_step import StepProgram
from windtunnel.training.task_builder import (
    S_COMPUTE,
    STREAMS,
    T_B,
    T_BARRIER,
    T_DISPATCH,
    T_F,
    T_GATHER,
    T_OFFLOAD,
    T_OPTIMIZER,
    T_REDUCE,
    T_SEND,
    T_W,
)

EXPOSED = {"tp": "exposed tp", "cp": "exposed cp", "ep": "exposed ep", "host": "host"}
NF4_BYTES = 0.5 + 1 / 64 + 4 / (64 * 256)
"""Per weight of a quantised base: four bits, an 8-bit scale a block of 64, an fp32 scale for 256 of these. Source:
Dettmers et al. 2023, arXiv 2305.14314, section 3."""
_LABEL = {
    "gemm": "gemm",
    "attention": "attention",
    "memory_bound": "memory bound",
    "scan": "scan",
    "recompute": "recompute",
}


def breakdown(program: StepProgram, timeline: Timeline, parts: StageCosts) -> dict[str, float]:
    """Partition the wall time of the stage that finishes last. Sums to the makespan."""
    own = last_stage_tasks(program, timeline)
    start, end = timeline.start_s[own], timeline.end_s[own]
    tag, alone = program.tasks.tag[own], program.tasks.alone_s[own]
    out: defaultdict[str, float] = defaultdict(float)
    for direction, k, scale in passes(program, parts, own, paired=False):
        for name, seconds in parts.busy_s[direction][k].items():
            out[class_of(name)] += seconds * scale
    for number, pair in enumerate(program.pairs):
        inside = (program.row[own] >= 0) & (_pair_of(program, own) == number)
        for name, seconds in pair.busy_s.items():
            out[class_of(name)] += seconds * float(alone[inside].sum()) / pair.seconds
    for t, name in ((T_SEND, "exposed pp"), (T_OPTIMIZER, "optimizer")):
        out[name] += float(alone[tag == t].sum())
    stretch = float(np.maximum(end - start - alone, 0.0).sum())
    if stretch > 0:
        out["slowed by overlap"] += stretch
    previous = np.concatenate([[0.0], end[:-1]])
    gap = np.maximum(start - previous, 0.0)
    for i in np.flatnonzero(gap > 0):
        _blame(out, program, timeline, int(own[i]), float(gap[i]))
    tail = timeline.makespan_s - float(end[-1]) if len(end) else timeline.makespan_s
    if tail > 0:
        out["exposed dp"] += tail
    return {name: value for name, value in sorted(out.items(), key=lambda x: -x[1]) if value > 0}


def last_stage_tasks(program: StepProgram, timeline: Timeline) -> Ints:
    """Compute tasks, in launch order, of the stage that finishes last."""
    compute_stream = (program.tasks.stream_idx % len(STREAMS) == S_COMPUTE) & (program.stage >= 0)
    ends = np.where(compute_stream, timeline.end_s, -1.0)
    stage = int(program.stage[int(np.argmax(ends))])
    own: Ints = np.flatnonzero(compute_stream & (program.stage == stage))
    return own


def last_compute_s(program: StepProgram, timeline: Timeline, *, passes_only: bool = False) -> float:
    """When the last computation of these replicas ends; `passes_only`: without the optimizer."""
    own = (program.tasks.stream_idx % len(STREAMS) == S_COMPUTE) & (program.stage >= 0)
    if passes_only:
        own &= program.row >= 0
    return float(timeline.end_s[own].max())


def _pair_of(program: StepProgram, own: Ints) -> Ints:
    """Kind of pair that each of the tasks runs in, −1 for none."""
    if program.pair_of is None:
        return np.full(len(own), -1)
    row = program.row[own]
    return np.where(row >= 0, program.pair_of[np.maximum(row, 0)], -1)


def passes(program: StepProgram, parts: StageCosts, own: Ints, *, paired: bool = True) -> list[tuple[int, int, float]]:
    """(direction, virtual stage, micro-batches that pass it) of the compute tasks `own`.

    `paired`: whether those that run in pairs count, in the time that they take there.
    """
    own = own if paired else own[_pair_of(program, own) < 0]
    tag, alone = program.tasks.tag[own], program.tasks.alone_s[own]
    part = np.where(program.row[own] >= 0, program.part[program.row[own]], 0)
    out = []
    for direction, t in ((F, T_F), (B, T_B), (W, T_W)):
        for k in np.unique(part[tag == t]):
            total = parts.seconds[direction, k]
            if total > 0:
                out.append((direction, int(k), float(alone[(tag == t) & (part == k)].sum()) / total))
    return out


def class_of(tag: str) -> str:
    """Class of time that a launch's tag is shown under."""
    return EXPOSED.get(tag, _LABEL.get(tag, tag))


_TRANSFER = {
    T_SEND: "exposed pp",
    T_REDUCE: "exposed dp",
    T_GATHER: "exposed dp",
    T_OFFLOAD: "exposed offload",
    T_DISPATCH: "host",
}


def _blame(out: defaultdict[str, float], program: StepProgram, timeline: Timeline, task: int, gap: float) -> None:
    """Give one idle gap to the chain of tasks that ended it.

    Transfers are exposed while they ran; from where the chain enters another stage's computation, the rest is waiting.
    """
    at = float(timeline.start_s[task])
    begin = at - gap
    cause = int(timeline.blame[task])
    while at > begin and cause >= 0:
        tag = int(program.tasks.tag[cause])
        if tag not in _TRANSFER and tag != T_BARRIER:
            break
        since = min(max(float(timeline.start_s[cause]), begin), at)
        if at > since:
            out[_TRANSFER.get(tag, "bubble")] += at - since
        at = since
        cause = int(timeline.blame[cause])
    if at > begin:
        out["bubble"] += at - begin


@dataclass(frozen=True, slots=True)
class StaticMemory:
    """Bytes that live through the whole step, per stage, by kind; gradients that appear in the first backward."""

    by_kind: dict[str, Floats]
    late_gradient_bytes: Floats
    """Per virtual stage in depth order."""
    elsewhere: dict[str, Floats]
    """What offloading keeps elsewhere instead, by class of tensors, per stage."""

    @property
    def total(self) -> Floats:
        """Sum over kinds."""
        total: Floats = np.sum(list(self.by_kind.values()), axis=0)
        return total


def static_memory(
    parts: StageCosts, plan: ResolvedPlan, training: TrainingSpec, behaviour: Behaviour, stage_of: Ints
) -> StaticMemory:
    """Weights, gradients and optimizer state per stage under the plan's partition.

    Source: Rajbhandari et al. 2020 (arXiv 1910.02054), section 3, with the byte counts of each framework.
    """
    p = plan.pp
    dense = np.bincount(stage_of, weights=parts.dense_params, minlength=p)
    expert = np.bincount(stage_of, weights=parts.expert_params, minlength=p)
    group = plan.shard_group
    egroup = min(max(plan.expert_dp, 1), group)
    master = behaviour.master_copy_bytes(training.master_weights)
    state = behaviour.state_bytes if training.optimizer == "adam" else OPTIMIZER_STATE_BYTES[training.optimizer]
    if training.optimizer == "muon":  # one momentum for matrices, Adam's two moments for everything else
        state += 4.0 * (1.0 - _matrix_share(parts))
    lora = training.phase == "lora"
    trainable = parts.trainable_share

    def over(sharded: bool, width: float) -> Floats:
        if not sharded:
            return np.asarray((dense + expert) * width, np.float64)
        return np.asarray((dense / group + expert / egroup) * width, np.float64)

    zero = plan.zero
    element = behaviour.element_bytes
    width = behaviour.weight_bytes if not lora else element * (1.0 + trainable)
    if lora and training.lora is not None and training.lora.quantized_base:
        width -= (element - NF4_BYTES) * _matrix_share(parts)
    if not lora and element == 2.0 and behaviour.param_bytes == 4.0 and training.master_weights:
        # the weights are the master copy (FSDP)
        width, master = max(master, 2.0), 0.0
    shard_state = zero >= 1 and (behaviour.shard_optimizer or zero == 3)
    grads = behaviour.grad_buffer_bytes * trainable
    if training.optimizer_in_backward:
        grads = 0.0
    late = np.zeros(len(parts.dense_params))
    if not behaviour.grads_persist:
        once = not plan.reshard_after_forward or (plan.m > 1 and not training.gradient_accumulation_sync)
        once = once and not plan.gather_block  # FSDP under a pipeline, or with `no_sync`, scatters once
        whole = zero < 2 or (zero == 3 and once)
        late = parts.dense_params * grads / (1 if whole else group) + parts.expert_params * grads / (
            1 if whole else egroup
        )
        grads = grads if behaviour.grad_buckets and zero == 0 and plan.dp * plan.cp > 1 else 0.0

    def among(ranks: int, width: float) -> Floats:
        return np.asarray((dense / ranks + expert / min(max(plan.expert_dp, 1), ranks)) * width, np.float64)

    weights, states = over(zero == 3, width), over(shard_state, (state + master) * trainable)
    away, held = plan.offload, over(zero >= 2, grads)
    levels = plan.levels
    if levels is not None:
        if levels.params:  # a master copy stays with the optimizer state
            weights = among(levels.params, element) + (weights if width > element else 0.0)
        if levels.params_again:
            weights = weights + among(levels.params_again, element)
        if levels.gradients:
            held, late = among(levels.gradients, grads), late * group / levels.gradients
    if away.gradients_in_place:
        held, late = 0.0 * held, 0.0 * late
    late_here = np.bincount(stage_of, weights=late, minlength=p)
    consumed = away.update == "beside_backward" and away.optimizer == 1.0 and plan.m == 1
    if consumed:  # each piece is used up as it arrives
        held_there = np.full(p, float(away.prefetch_layers) * parts.layer_params * element / group)
    else:
        wide = (behaviour.host_grad_bytes or behaviour.grad_buffer_bytes) / behaviour.grad_buffer_bytes
        held_there = (held + late_here) * wide
    elsewhere = {
        "params": weights * away.params,
        "optimizer": states * away.optimizer,
        "gradients": held_there * away.gradients,
    }
    late = late * (1.0 - away.gradients)
    out = {
        "weights": weights * (1.0 - away.params),
        "gradients": held * (1.0 - away.gradients),
        "optimizer": states * (1.0 - away.optimizer),
    }
    in_use = float(away.prefetch_layers) * parts.layer_params * element
    if away.gradients:  # what computation writes while the pieces before are on their way
        out["gradients on their way"] = np.full(p, in_use / (group if zero >= 2 else 1) * away.gradients)
    if away.params and zero < 3:  # layers that are in use or come in ahead
        out["fetched layers"] = np.full(p, in_use * away.params)
    if plan.gather_block:  # a chunk in each direction, and the gradients of the one that runs backward
        largest = np.zeros(p)
        np.maximum.at(largest, stage_of, parts.dense_params + parts.expert_params)
        out["gathered layers"] = largest * (min(plan.vpp, 2) * element + behaviour.grad_buffer_bytes * trainable)
    elif zero == 3 and plan.reshard_after_forward:
        out["gathered layers"] = np.full(p, 2.0 * parts.layer_params * element)
        if plan.gathered_layers > 2:
            out["layers gathered ahead"] = np.full(p, (plan.gathered_layers - 2.0) * parts.layer_params * element)
    elif zero == 3:
        out["gathered layers"] = over(False, element)
    if behaviour.keeps_stage_outputs and p > 1:  # inputs and gradients of every micro-batch have receive buffers
        ends = np.full(len(parts.dense_params), 2.0)
        ends[0] -= 1.0
        ends[-1] -= 1.0
        out["stage buffers"] = np.asarray(
            np.bincount(stage_of, weights=ends, minlength=p) * plan.m * parts.p2p_bytes, np.float64
        )
    given = plan.compression.gradients
    if given is not None and plan.dp * plan.cp * plan.copies > 1:
        shapes = Shapes.of(parts.graph, plan, given)
        exchange = CompressedExchange(given, shapes, 4.0, parts.network.cluster.device, Coefficients())
        whole = zero == 0 or not behaviour.shard_optimizer
        kept = trainable * exchange.kept_bytes(float(group), whole=whole)
        out["error feedback"] = np.asarray(dense * kept, np.float64)
    if plan.local_steps is not None:  # where the round began, its momentum, what travels
        kept = 4.0 + 4.0 * plan.local_steps.momentum + behaviour.grad_buffer_bytes * plan.local_steps.late
        out["outer state"] = np.asarray((dense + expert) * trainable * kept, np.float64)
    if parts.dummy_wgrad_bytes.any():
        out["workspace"] = parts.dummy_wgrad_bytes + 70e6
    return StaticMemory({name: size for name, size in out.items() if size.any()}, late, elsewhere)


def _matrix_share(parts: StageCosts) -> float:
    """Weights of the layers' matrices over all weights: what a quantised base keeps in four bits."""
    g = parts.graph
    layers = [g.blocks[kind] for kind in g.depth]
    matrices = sum(op.params for b in layers for op in b.operators if op.kind in (Kind.GEMM, Kind.GROUPED_GEMM))
    return matrices / (g.embedding.params + g.head.params + sum(b.params for b in layers))


def memory_report(
    program: StepProgram,
    timeline: Timeline,
    parts: StageCosts,
    table: InstructionTable,
    static: StaticMemory,
    capacity_bytes: float,
    plan: ResolvedPlan,
    training: TrainingSpec,
    behaviour: Behaviour,
) -> MemoryReport:
    """Memory curve of every stage from allocations and frees of the step program; reserved memory of the fullest."""
    offloaded = plan.offload.activations
    kinds = sorted({kind for kept in parts.kept_bytes for kind in kept})
    names = (*static.by_kind, *kinds, "gradients (late)", "transient")
    last_kind = W if table.split_backward else B
    part, kind = program.part, table.kind
    events: list[tuple[Ints, bool, Floats, Int32s, int]] = []
    task, count = program.compute_task, np.diff(program.piece_ptr)
    row = np.repeat(np.arange(len(kind)), count)
    piece = np.arange(len(row)) - program.piece_ptr[row]
    last_piece = piece == count[row] - 1
    forward, final = kind[row] == F, kind[row] == last_kind
    base_kinds = len(static.by_kind)
    for i, name in enumerate(kinds):
        size = np.array([kept.get(name, 0.0) for kept in parts.kept_bytes]) * (1.0 - offloaded)
        each = size[part[row]] / count[row]
        born, freed = forward, final
        if name == HEAD:  # the head runs in the last piece forward and in the first piece backward
            each = size[part[row]]
            born = forward & last_piece & (each > 0)
            begun = (kind[row] == B) & (piece == 0) & (each > 0)
            if table.split_backward:  # weight gradients read logit gradients, half of what an in-place fp32 loss keeps
                each = each / (4.0 / behaviour.element_bytes)
                events.append((task[begun], True, -each[begun], table.stage[row[begun]], base_kinds + i))
                events.append((task[born], False, each[born], table.stage[row[born]], base_kinds + i))
                freed = (kind[row] == W) & (piece == 0) & (each > 0)
            else:
                freed = begun
        events.append((task[born], False, each[born], table.stage[row[born]], base_kinds + i))
        events.append((task[freed], True, -each[freed], table.stage[row[freed]], base_kinds + i))
    for direction in (F, B, W):
        here = kind[row] == direction
        size = parts.transient_bytes[direction][part[row]]
        here &= size > 0
        if here.any():
            events.append((task[here], False, size[here], table.stage[row[here]], len(names) - 1))
            events.append((task[here], True, -size[here], table.stage[row[here]], len(names) - 1))
    if static.late_gradient_bytes.any():
        here = final & (table.micro_batch[row] == 0)
        size = static.late_gradient_bytes[part[row]] / count[row]
        events.append((task[here], True, size[here], table.stage[row[here]], len(names) - 2))
    p = table.p
    if not events:
        zero = np.zeros(1)
        return MemoryReport(
            stage=0,
            peak_allocated_bytes=0.0,
            peak_reserved_bytes=0.0,
            capacity_bytes=capacity_bytes,
            at_peak={},
            per_stage_allocated_bytes=(),
            curve_time_s=zero,
            curve_bytes=zero,
        )
    record = MemoryEvents(
        np.concatenate([e[0] for e in events]).astype(np.int32),
        np.concatenate([np.full(len(e[0]), e[1], np.bool_) for e in events]),
        np.concatenate([e[2] for e in events]),
        np.concatenate([e[3] for e in events]).astype(np.int32),
        np.concatenate([np.full(len(e[0]), e[4], np.int32) for e in events]),
        names,
    )
    curve = memory_curve(record, timeline)
    base = static.total
    peaks = np.array([base[s] + (curve.pools[s].peak_bytes if s in curve.pools else 0.0) for s in range(p)])
    own = np.unique(program.stage[program.stage >= 0])
    top = int(own[np.argmax(peaks[own])])
    stages = {top}
    if behaviour.keeps_stage_outputs and p > 1 and not plan.fused_loss and table.placement[-1, 0] in own:
        stages.add(int(table.placement[-1, 0]))  # its kept outputs are not in the account
    if behaviour.planned_memory:  # the account counts what a block keeps otherwise than its tensors do
        stages.update(own.tolist())
    replayed = {
        s: reserved_memory(
            parts,
            plan,
            training,
            behaviour,
            table,
            {name: float(value[s]) for name, value in static.by_kind.items()},
            static.late_gradient_bytes,
            s,
            capacity_bytes,
        )
        for s in sorted(stages)
    }
    top = max(replayed, key=lambda s: replayed[s].total_bytes)
    held = replayed[top]
    # the account says when and where, single tensors say how much: its curves are drawn to their peak
    beyond = peaks[top] - base[top]
    stretch = max((held.allocated_bytes - base[top]) / beyond, 0.0) if beyond > 0 else 1.0
    peaks = base + (peaks - base) * stretch
    pool = curve.pools.get(top)
    if pool is not None:
        times, total = pool.times_s, pool.total_bytes * stretch + base[top]
    else:
        times, total = np.zeros(1), np.full(1, base[top])
    by_kind = {name: np.full(len(times), value[top]) for name, value in static.by_kind.items()}
    by_kind["activations"] = total - base[top]
    return MemoryReport(
        stage=top,
        peak_allocated_bytes=held.allocated_bytes,
        peak_reserved_bytes=held.total_bytes,
        capacity_bytes=capacity_bytes,
        at_peak=held.at_peak,
        per_stage_allocated_bytes=tuple(peaks.tolist()),
        curve_time_s=times,
        curve_bytes=total,
        curve_by_kind=by_kind,
        reserved_by_allocator_bytes=held.allocator_bytes,
        communication_buffer_bytes=held.communication_bytes,
        context_bytes=held.context_bytes,
        allocator_retries=held.allocator_retries,
    )
