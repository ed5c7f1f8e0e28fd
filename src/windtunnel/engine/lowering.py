"""Two levels: a simulated segment reduced to a short chain of phases that enters the step program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.engine.memory import memory_curve
from windtunnel.engine.timeline import simulate
from windtunnel.program.tables import MemoryEvents, Resources, Streams, TaskTable, Timeline

MAX_PHASES = 16

_Floats = Floats


@dataclass(frozen=True, slots=True)
class Phase:
    """Steady demands for a while: `work` (r,) done on each rate in it, mean `slots` (q,) held in each pool."""

    duration_s: float
    work: _Floats
    slots: _Floats


@dataclass(frozen=True, slots=True)
class SegmentSummary:
    """What a step needs to know of a segment."""

    phases: tuple[Phase, ...]
    transient_peak_bytes: float
    """Largest memory above that at the start, over the segment."""
    net_bytes: dict[str, float]
    """Memory left allocated at the end, by kind of tensor; negative where more was freed than allocated."""
    host_s: float
    """End of the last task on a host stream."""
    device_s: float
    """End of the last task on any other stream."""
    busy_s: dict[str, float]
    """Sum of task times by tag (tasks side by side count each)."""

    @property
    def duration_s(self) -> float:
        """Length of the segment alone, seconds."""
        return sum(phase.duration_s for phase in self.phases)


def _steps(edges: _Floats, start: _Floats, end: _Floats, group: Ints, height: _Floats, n: int) -> _Floats:
    """Sum of boxes [start, end) of some height by group, on each interval between edges; shape (intervals, n)."""
    change = np.zeros((len(edges), n))
    np.add.at(change, (np.searchsorted(edges, start), group), height)
    np.add.at(change, (np.searchsorted(edges, end), group), -height)
    return np.maximum(np.cumsum(change, axis=0)[:-1], 0.0)


def _merge(duration: _Floats, load: _Floats, scale: _Floats, most: int) -> Ints:
    """Merge neighbours whose loads differ least until at most `most` are left; the first row of each group.

    The cost of a merge is the growth of the squared deviation within groups, weighted by duration (Ward's criterion on
    neighbours).
    """
    first = np.arange(len(duration))
    length, mean = duration.copy(), load / scale
    while len(first) > most:
        pair = length[:-1] * length[1:] / (length[:-1] + length[1:])
        j = int(np.argmin(pair * ((mean[1:] - mean[:-1]) ** 2).sum(axis=1)))
        total = length[j] + length[j + 1]
        mean[j] = (mean[j] * length[j] + mean[j + 1] * length[j + 1]) / total
        length[j] = total
        first, length, mean = np.delete(first, j + 1), np.delete(length, j + 1), np.delete(mean, j + 1, axis=0)
    return first


def reduce_segment(
    tasks: TaskTable,
    streams: Streams,
    resources: Resources,
    memory: MemoryEvents | None = None,
    *,
    max_phases: int = MAX_PHASES,
    host_streams: Sequence[int] = (),
    timeline: Timeline | None = None,
) -> SegmentSummary:
    """Simulate a segment alone and reduce it to phases.

    Neighbouring intervals of the timeline are merged while their rates and slots are most alike, until `max_phases` are
    left; work is conserved on every rate. A task that ran at changing speed counts with its mean.

    Args:
        tasks: The segment.
        streams: Its streams.
        resources: What it shares; the phases' `work` and `slots` are indexed like these.
        memory: Its allocations and frees.
        max_phases: Most phases; 1 keeps only duration and totals.
        host_streams: Streams of the host, for `host_s`.
        timeline: A simulation of the segment, if there is one already.

    Returns:
        Phases, memory, host and device seconds, busy seconds by tag.
    """
    timeline = timeline or simulate(tasks, streams, resources)
    start, end = timeline.start_s, timeline.end_s
    edges = np.unique(np.concatenate(([0.0], start, end)))
    duration = np.diff(edges)
    num_rates, num_pools = len(resources.capacity), len(resources.slots)
    lasts = end > start
    length = np.where(lasts, end - start, 1.0)
    entry_task = np.repeat(np.arange(len(tasks)), np.diff(tasks.rate_ptr))
    keep = lasts[entry_task]
    at = entry_task[keep]
    rate = tasks.rate_idx[keep].astype(np.int64)
    rates = _steps(edges, start[at], end[at], rate, tasks.rate_work[keep] / length[at], num_rates)
    holds = np.flatnonzero(lasts & (tasks.slot_pool >= 0)) if num_pools else np.zeros(0, np.int64)
    pool = tasks.slot_pool[holds].astype(np.int64)
    slots = _steps(edges, start[holds], end[holds], pool, tasks.slots[holds].astype(np.float64), num_pools)
    slots = np.minimum(slots, resources.slots)
    phases: tuple[Phase, ...] = ()
    if len(duration):
        scale = np.concatenate((resources.capacity, np.maximum(resources.slots, 1).astype(np.float64)))
        first = _merge(duration, np.hstack((rates, slots)), np.where(scale > 0.0, scale, 1.0), max(max_phases, 1))
        lengths = np.add.reduceat(duration, first)
        work = np.add.reduceat(rates * duration[:, None], first, axis=0)
        held = np.add.reduceat(slots * duration[:, None], first, axis=0) / lengths[:, None]
        phases = tuple(Phase(float(s), w, h) for s, w, h in zip(lengths, work, held, strict=True))
    host = np.zeros(len(tasks), np.bool_)
    stream_task = np.repeat(np.arange(len(tasks)), np.diff(tasks.stream_ptr))
    host[stream_task[np.isin(tasks.stream_idx, np.asarray(host_streams, np.int64))]] = True
    busy = np.bincount(tasks.tag, weights=end - start, minlength=len(tasks.tags)) if len(tasks) else np.zeros(0)
    peak, net = _memory(memory, timeline)
    return SegmentSummary(
        phases=phases,
        transient_peak_bytes=peak,
        net_bytes=net,
        host_s=float(end[host].max(initial=0.0)),
        device_s=float(end[~host].max(initial=0.0)),
        busy_s={
            tasks.tags[k] if k < len(tasks.tags) else f"tag {k}": float(busy[k]) for k in np.flatnonzero(busy > 0.0)
        },
    )


def _memory(memory: MemoryEvents | None, timeline: Timeline) -> tuple[float, dict[str, float]]:
    """Peak above the start, and what is left at the end by kind of tensor."""
    if memory is None or not len(memory.task):
        return 0.0, {}
    net = np.bincount(memory.tensor, weights=memory.bytes, minlength=len(memory.tensors))
    names = [memory.tensors[k] if k < len(memory.tensors) else f"tensor {k}" for k in range(len(net))]
    left = {names[k]: float(net[k]) for k in np.flatnonzero(net != 0.0)}
    return memory_curve(memory, timeline).peak_bytes, left
