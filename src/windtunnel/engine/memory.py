"""What is alive in memory while a program runs: the curve of tensors, its peak, and what an allocator would reserve."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats, Ints, Mask
from windtunnel.program.tables import MemoryEvents, Timeline


@dataclass(frozen=True, slots=True)
class PoolCurve:
    """Memory of one pool (rank class). `times_s` and `total_bytes` have shape (k,): the total from each time on."""

    times_s: Floats
    total_bytes: Floats
    peak_bytes: float
    peak_s: float
    peak_by_tensor: dict[str, float]
    """Bytes alive at the peak by kind of tensor, largest first, kinds with none left out."""


@dataclass(frozen=True, slots=True)
class MemoryCurve:
    """Curves of all pools that have events, by rank class."""

    pools: dict[int, PoolCurve]

    @property
    def peak_bytes(self) -> float:
        """Largest peak of any pool, bytes."""
        return max((pool.peak_bytes for pool in self.pools.values()), default=0.0)


def event_order(events: MemoryEvents, timeline: Timeline) -> tuple[Floats, Ints]:
    """Times of the events and the order in which they happen.

    At one instant what ended tasks free comes first, then everything that is allocated, then what starting tasks free;
    within each of these, the order of the rows. What a task of no length frees at its end follows its own allocations.
    """
    start, end = timeline.start_s[events.task], timeline.end_s[events.task]
    times = np.where(events.at_end, end, start)
    frees = events.bytes < 0.0
    allocates = np.zeros(len(timeline.start_s), np.bool_)
    allocates[events.task[~frees]] = True
    late = ~events.at_end | ((end <= start) & allocates[events.task])
    kind = np.where(frees, np.where(late, 2, 0), 1)
    return times, np.lexsort((kind, times))


def by_pool(events: MemoryEvents, order: Ints) -> dict[int, Ints]:
    """Rows of the events of each pool, in the given order."""
    pools, counts = np.unique(events.pool, return_counts=True)
    grouped = order[np.argsort(events.pool[order], kind="stable")]
    return dict(zip(pools.tolist(), np.split(grouped, np.cumsum(counts)[:-1]), strict=True)) if len(pools) else {}


def bytes_by_tensor(events: MemoryEvents, timeline: Timeline, pool: int) -> Floats:
    """What each kind of tensor adds to the curve of one pool.

    Args:
        events: Allocations and frees, as for `memory_curve`.
        timeline: When the tasks that trigger them start and end.
        pool: One that has events.

    Returns:
        Bytes, shape (kinds, k), at the k times of the pool's curve; the kinds sum to its total.
    """
    times, order = event_order(events, timeline)
    rows = by_pool(events, order)[pool]
    shares = np.zeros((max(len(events.tensors), int(events.tensor[rows].max()) + 1), len(rows)))
    shares[events.tensor[rows], np.arange(len(rows))] = events.bytes[rows]
    shares = np.cumsum(shares, axis=1)
    return np.asarray(shares[:, _instants(times[rows], int(np.argmax(np.cumsum(events.bytes[rows]))))])


def _instants(at: Floats, top: int) -> Mask:
    """Which events end an instant, and that of the peak: where the curve has a point."""
    last = np.append(at[1:] != at[:-1], True)  # one point an instant, after all that happens in it …
    last[top] = True  # … and the peak itself
    return last


def memory_curve(events: MemoryEvents, timeline: Timeline) -> MemoryCurve:
    """Add up allocations and frees over time, pool by pool.

    Args:
        events: Allocations (positive bytes) and frees (negative).
        timeline: When the tasks that trigger them start and end.

    Returns:
        One curve a pool, with its peak and what was alive then.
    """
    times, order = event_order(events, timeline)
    pools: dict[int, PoolCurve] = {}
    for pool, rows in by_pool(events, order).items():
        at, size = times[rows], events.bytes[rows]
        total = np.cumsum(size)
        top = int(np.argmax(total))
        peak = float(total[top])
        names = max(len(events.tensors), int(events.tensor[rows].max()) + 1)
        alive = np.bincount(events.tensor[rows[: top + 1]], weights=size[: top + 1], minlength=names)
        last = _instants(at, top)
        kinds = sorted(np.flatnonzero(alive > 0.5), key=lambda k: (-alive[k], k))
        pools[pool] = PoolCurve(
            times_s=at[last],
            total_bytes=total[last],
            peak_bytes=max(peak, 0.0),
            peak_s=float(at[top]),
            peak_by_tensor={
                events.tensors[k] if k < len(events.tensors) else f"tensor {k}": float(alive[k]) for k in kinds
            },
        )
    return MemoryCurve(pools)
