"""Memory report of a step: the curve of every stage over the step, and the reserved memory of the fullest stage."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats, Ints, Mask
from windtunnel.engine import memory_curve
from windtunnel.engine.memory import PoolCurve, bytes_by_tensor
from windtunnel.program.tables import MemoryEvents, Timeline
from windtunnel.schedules.table import B, F, InstructionTable, W
from windtunnel.training.memory.memory_inputs import MemoryInputs
from windtunnel.training.memory.reserved_memory import reserved_memory
from windtunnel.training.memory.static_memory import StaticMemory
from windtunnel.training.memory.tensor_events import KINDS, TEMPORARY
from windtunnel.training.results.records import MemoryReport
from windtunnel.training.stage_costs.block_pricing import HEAD
from windtunnel.training.step.build_step import StepProgram

_LATE, _TRANSIENT = "gradients (late)", "transient"
"""Kinds of events: gradients that appear in the first backward, and what lives during one block."""

_TEMPORARIES = KINDS[TEMPORARY]


@dataclass(frozen=True, slots=True)
class _Pieces:
    """Compute tasks of the step, one row each: an instruction of the schedule runs in one piece or more. Shape (n,)."""

    task: Ints
    row: Ints
    """Instruction that the piece belongs to."""
    kind: npt.NDArray[np.signedinteger]
    """Direction of the instruction: F, B or W."""
    part: Ints
    """Virtual stage."""
    stage: npt.NDArray[np.signedinteger]
    """Pipeline stage."""
    count: Ints
    """Pieces of the instruction."""
    is_first: Mask
    is_last: Mask

    @classmethod
    def of(cls, program: StepProgram, schedule: InstructionTable) -> _Pieces:
        """The pieces of a step."""
        counts = np.diff(program.piece_ptr)
        row = np.repeat(np.arange(len(schedule.kind)), counts)
        number = np.arange(len(row)) - program.piece_ptr[row]
        count = counts[row]
        return cls(
            task=program.compute_task,
            row=row,
            kind=schedule.kind[row],
            part=program.virtual_stage[row],
            stage=schedule.stage[row],
            count=count,
            is_first=number == 0,
            is_last=number == count - 1,
        )


@dataclass(slots=True)
class _EventRecorder:
    """Allocations and frees, collected block by block in the order in which the curve applies them."""

    pieces: _Pieces
    tasks: list[Ints] = field(default_factory=list)
    at_end: list[Mask] = field(default_factory=list)
    sizes: list[Floats] = field(default_factory=list)
    stages: list[npt.NDArray[np.signedinteger]] = field(default_factory=list)
    kinds: list[npt.NDArray[np.int32]] = field(default_factory=list)

    def add(self, chosen: Mask, size: Floats, kind: int, *, at_end: bool) -> None:
        """Change the bytes of tensor kind `kind` by `size[chosen]` where the chosen pieces start or end."""
        tasks = self.pieces.task[chosen]
        self.tasks.append(tasks)
        self.at_end.append(np.full(len(tasks), at_end, np.bool_))
        self.sizes.append(size[chosen])
        self.stages.append(self.pieces.stage[chosen])
        self.kinds.append(np.full(len(tasks), kind, np.int32))

    def events(self, names: tuple[str, ...]) -> MemoryEvents:
        """Everything that was recorded, as one table."""
        return MemoryEvents(
            np.concatenate(self.tasks).astype(np.int32),
            np.concatenate(self.at_end),
            np.concatenate(self.sizes),
            np.concatenate(self.stages).astype(np.int32),
            np.concatenate(self.kinds),
            names,
        )


def memory_report(
    inputs: MemoryInputs, static: StaticMemory, program: StepProgram, timeline: Timeline, capacity_bytes: float
) -> MemoryReport:
    """Memory curve of every stage from allocations and frees of the step, and the reserved memory of the fullest.

    The curve adds tensors up by kind and says when and where memory peaks; the tensor trace of the fullest stages says
    how much they reserve. The curve is stretched to the peak of the trace.

    Args:
        inputs: The step.
        static: Bytes that live through it.
        program: Its tasks.
        timeline: When each task starts and ends.
        capacity_bytes: Memory of one device.
    """
    events = _memory_events(inputs, static, program)
    if events is None:
        return MemoryReport.empty(capacity_bytes)
    pools = memory_curve(events, timeline).pools
    base = static.total
    peaks = np.array([base[s] + (pools[s].peak_bytes if s in pools else 0.0) for s in range(inputs.schedule.p)])
    own = np.unique(program.stage[program.stage >= 0])
    replayed = {
        stage: reserved_memory(inputs, static, stage, capacity_bytes)
        for stage in _stages_to_replay(inputs, own, int(own[np.argmax(peaks[own])]))
    }
    top = max(replayed, key=lambda stage: replayed[stage].total_bytes)
    reserved = replayed[top]
    beyond = peaks[top] - base[top]
    stretch = max((reserved.allocated_bytes - base[top]) / beyond, 0.0) if beyond > 0 else 1.0
    peaks = base + (peaks - base) * stretch
    in_step = max((reserved.step_bytes - base[top]) / beyond, 0.0) if beyond > 0 else 1.0
    times, total = _curve_of_stage(pools.get(top), float(base[top]), in_step)
    by_kind = {name: np.full(len(times), value[top]) for name, value in static.by_kind.items()}
    if top in pools:
        moving = _moving_by_kind(events, timeline, top, total - base[top])
        by_kind |= {name: size + by_kind.get(name, 0.0) for name, size in moving.items()}
        by_kind = _as_traced(by_kind, total, reserved.at_step_peak)
    return MemoryReport(
        stage=top,
        peak_allocated_bytes=reserved.allocated_bytes,
        peak_reserved_bytes=reserved.total_bytes,
        capacity_bytes=capacity_bytes,
        at_peak=reserved.at_peak,
        per_stage_allocated_bytes=tuple(peaks.tolist()),
        curve_time_s=times,
        curve_bytes=total,
        curve_by_kind=by_kind,
        reserved_by_allocator_bytes=reserved.allocator_bytes,
        wanted_by_allocator_bytes=reserved.wanted_bytes,
        communication_buffer_bytes=reserved.communication_bytes,
        context_bytes=reserved.context_bytes,
        allocator_retries=reserved.allocator_retries,
    )


def _curve_of_stage(pool: PoolCurve | None, base_bytes: float, stretch: float) -> tuple[Floats, Floats]:
    """Times (s) and bytes of the curve of one stage, shapes (n,)."""
    if pool is None:
        return np.zeros(1), np.full(1, base_bytes)
    return pool.times_s, pool.total_bytes * stretch + base_bytes


def _as_traced(by_kind: dict[str, Floats], total: Floats, at_peak: dict[str, float]) -> dict[str, Floats]:
    """The same curves, which at the instant of their peak are what the tensor trace has there."""
    top = int(np.argmax(total))
    if abs(sum(at_peak.values()) - total[top]) > 1e-6 * total[top]:
        return by_kind  # the trace's peak is below what lives through the step: states appear at its end
    out = {name: by_kind.get(name, np.zeros(len(total))).copy() for name in {**by_kind, **at_peak}}
    for name, size in out.items():
        size[top] = at_peak.get(name, 0.0)
    return out


def _moving_by_kind(events: MemoryEvents, timeline: Timeline, stage: int, total: Floats) -> dict[str, Floats]:
    """Kind of tensor → bytes on one stage that come and go, shape (n,); they sum to `total`.

    Gradients are as large as they are; what the tensor trace adds or takes away is shared out over the other kinds.
    """
    names = [{_LATE: "gradients", _TRANSIENT: _TEMPORARIES}.get(name, name) for name in events.tensors]
    sizes = bytes_by_tensor(events, timeline, stage)
    late = np.minimum(sizes[events.tensors.index(_LATE)], np.maximum(total, 0.0))
    rest = sizes.sum(axis=0) - sizes[events.tensors.index(_LATE)]
    factor = np.divide(total - late, rest, out=np.zeros_like(total), where=rest > 1.0)
    out: dict[str, Floats] = {}
    for name, event_kind, size in zip(names, events.tensors, sizes, strict=False):
        own = late if event_kind == _LATE else size * factor
        if np.abs(own).max(initial=0.0) > 1.0:
            out[name] = out.get(name, 0.0) + own
    out[_TEMPORARIES] = out.get(_TEMPORARIES, 0.0) + total - sum(out.values(), np.zeros_like(total))
    return {name: size for name, size in out.items() if np.abs(size).max(initial=0.0) > 1.0}


def _stages_to_replay(inputs: MemoryInputs, own: npt.NDArray[np.signedinteger], fullest: int) -> list[int]:
    """Stages whose tensors are replayed: the fullest by kind, and those where sums by kind are known to mislead."""
    plan, schedule, stages = inputs.plan, inputs.schedule, {fullest}
    last = int(schedule.placement[-1, 0])
    if inputs.framework.keeps_stage_outputs and schedule.p > 1 and not plan.fused_loss and last in own:
        stages.add(last)  # the sums by kind leave its kept outputs out
    if inputs.framework.planned_memory:  # the sums by kind count what a block keeps otherwise than its tensors do
        stages.update(own.tolist())
    return sorted(stages)


def _memory_events(inputs: MemoryInputs, static: StaticMemory, program: StepProgram) -> MemoryEvents | None:
    """Allocations and frees of activations, temporaries and late gradients; None where there are none."""
    costs, schedule = inputs.costs, inputs.schedule
    kept_kinds = sorted({kind for kept in costs.kept_bytes for kind in kept})
    names = (*static.by_kind, *kept_kinds, _LATE, _TRANSIENT)
    pieces = _Pieces.of(program, schedule)
    recorder = _EventRecorder(pieces)
    for number, name in enumerate(kept_kinds, start=len(static.by_kind)):
        kept = np.array([own.get(name, 0.0) for own in costs.kept_bytes]) * (1.0 - inputs.plan.offload.activations)
        if name == HEAD:
            _record_head(recorder, inputs, kept, number)
        else:
            size = kept[pieces.part] / pieces.count
            recorder.add(pieces.kind == F, size, number, at_end=False)
            recorder.add(pieces.kind == _last_kind(schedule), -size, number, at_end=True)
    for direction in (F, B, W):
        size = costs.transient_bytes[direction][pieces.part]
        chosen = (pieces.kind == direction) & (size > 0)
        if chosen.any():
            recorder.add(chosen, size, len(names) - 1, at_end=False)
            recorder.add(chosen, -size, len(names) - 1, at_end=True)
    if static.late_gradient_bytes.any():
        chosen = (pieces.kind == _last_kind(schedule)) & (schedule.micro_batch[pieces.row] == 0)
        recorder.add(chosen, static.late_gradient_bytes[pieces.part] / pieces.count, len(names) - 2, at_end=True)
    return recorder.events(names) if recorder.tasks else None


def _last_kind(schedule: InstructionTable) -> int:
    """Direction of the last pass of a micro-batch: weight gradients where they are apart, else backward."""
    return W if schedule.split_backward else B


def _record_head(recorder: _EventRecorder, inputs: MemoryInputs, kept: Floats, kind: int) -> None:
    """Record the head's tensors: it runs in the last piece of a forward pass and in the first piece of a backward."""
    pieces = recorder.pieces
    size = kept[pieces.part]
    written = (pieces.kind == F) & pieces.is_last & (size > 0)
    freed = (pieces.kind == B) & pieces.is_first & (size > 0)
    if inputs.schedule.split_backward:
        # weight gradients read the gradient of the logits, half of what an in-place fp32 loss keeps
        size = size / (4.0 / inputs.framework.element_bytes)
        recorder.add(freed, -size, kind, at_end=True)
        recorder.add(written, size, kind, at_end=False)
        freed = (pieces.kind == W) & pieces.is_first & (size > 0)
    recorder.add(written, size, kind, at_end=False)
    recorder.add(freed, -size, kind, at_end=True)
