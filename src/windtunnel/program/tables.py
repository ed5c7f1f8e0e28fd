"""Tables that the engine runs: tasks that occupy streams, hold slots and share rates.

The tables are flat arrays with one row for each task; ragged columns are stored as CSR (`*_ptr`, `*_idx`). They know
neither models nor clusters.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from windtunnel.arrays import Floats, Int32s, Ints, Mask


@dataclass(frozen=True, slots=True)
class Resources:
    """Rates that running tasks share (HBM, links, NICs, PCIe, host memory, storage, CPU) and slot pools (SMs, engines).

    `capacity` in work units (bytes, core-seconds …) per second, shape (r,). `slots` counts per pool, shape (q,).
    """

    capacity: Floats
    names: tuple[str, ...] = ()
    slots: Int32s = field(default_factory=lambda: np.zeros(0, np.int32))
    slot_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Streams:
    """In-order queues, columns of shape (s,). Tasks of one stream run one after another in row order."""

    priority: Int32s
    """Streams of higher priority are granted slots first."""
    rank_class: Int32s
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTable:
    """Tasks of a program, n rows in launch order.

    A task is *ready* when it heads all its streams and all its dependencies have ended. It then takes its slots and
    runs at speed λ ≤ 1 (its own time is `alone_s` at λ = 1) while it loads each rate with λ · work / alone_s.
    """

    alone_s: Floats
    """Seconds of each task when it runs alone with all the slots it wants; zero for a barrier. Shape (n,)."""
    weight: Floats
    """Weight of each task under contention: speed = min(1, level · weight). Shape (n,)."""
    rank_class: Int32s
    tag: Int32s
    """Index into `tags`: the class of time in breakdowns."""
    stream_ptr: Ints
    stream_idx: Int32s
    """Streams that a task occupies; a rendezvous occupies several."""
    dep_ptr: Ints
    dep_idx: Int32s
    """Tasks that must have ended: earlier rows, or later rows on other streams; a cycle is an error."""
    rate_ptr: Ints
    rate_idx: Int32s
    rate_work: Floats
    """Work of the whole task on each shared rate (bytes for links and memory), times the ranks of its class."""
    slot_pool: Int32s
    """Pool in which a task holds slots, −1 for none. Shape (n,)."""
    slots: Int32s
    """Slots that a task wants. Shape (n,)."""
    min_slots: Int32s
    """Fewest slots that a task starts with; its time then follows the staircase `ceil(waves·slots/granted)/waves`."""
    waves: Int32s
    """Waves at the wanted slots, 0 for a persistent task; slots go to higher priorities at wave boundaries only."""
    tags: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.alone_s)


@dataclass(frozen=True, slots=True)
class MemoryEvents:
    """Allocations and frees, one row each.

    The start (`at_end` False) or the end of `task` triggers an event. Positive `bytes` allocate, negative ones free.
    `pool` is the rank class; `tensor` indexes `tensors`, the kinds of tensors shown to people.
    """

    task: Int32s
    at_end: Mask
    bytes: Floats
    pool: Int32s
    tensor: Int32s
    tensors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Timeline:
    """Result of the engine, columns of shape (n,). `blame[i]` is the task whose end released task i last (−1: none)."""

    start_s: Floats
    end_s: Floats
    blame: Int32s
    makespan_s: float
