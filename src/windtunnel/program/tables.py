"""The intermediate representation that everything is lowered to: tasks that hold slots and share rates.

Flat arrays, one row a task, ragged columns as CSR (`*_ptr`, `*_idx`). Nothing here knows about models or clusters.
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
    """In-order queues. Tasks of one stream run one after the other in row order. Shape (s,)."""

    priority: Int32s
    """Higher is granted slots first."""
    rank_class: Int32s
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTable:
    """Tasks. n rows; row order is launch order.

    A task is *ready* when it heads all its streams and all its dependencies have ended. It then takes its slots and
    runs at speed λ ≤ 1 (its own time is `alone_s` at λ = 1) while it loads each rate with λ · work / alone_s.
    """

    alone_s: Floats
    """Seconds when alone, with all the slots it wants. Zero is allowed (a barrier)."""
    weight: Floats
    """Share under contention: speed = min(1, level · weight)."""
    rank_class: Int32s
    tag: Int32s
    """Index into `tags`: the class of time in breakdowns."""
    stream_ptr: Ints
    stream_idx: Int32s
    """Streams the task occupies (a rendezvous names several)."""
    dep_ptr: Ints
    dep_idx: Int32s
    """Tasks that must have ended. Only earlier rows, or later rows on other streams; a cycle is an error."""
    rate_ptr: Ints
    rate_idx: Int32s
    rate_work: Floats
    """Work done on each shared rate over the whole task (bytes); multiplicities of rank classes are multiplied in."""
    slot_pool: Int32s
    """Pool the task holds slots in, −1 for none. Shape (n,)."""
    slots: Int32s
    """Slots wanted."""
    min_slots: Int32s
    """Fewest it starts with; its time then follows the staircase `ceil(waves·slots/granted)/waves`."""
    waves: Int32s
    """Waves at the wanted slots: it gives up slots to higher priorities only at wave boundaries; 0 = persistent."""
    tags: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.alone_s)


@dataclass(frozen=True, slots=True)
class MemoryEvents:
    """Allocations and frees, one row each. `task` names whose start (`at_end` False) or end triggers it.

    `bytes` > 0 allocates, < 0 frees. `pool` is the rank class, `tensor` indexes `tensors` (the kind shown to people).
    """

    task: Int32s
    at_end: Mask
    bytes: Floats
    pool: Int32s
    tensor: Int32s
    tensors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Timeline:
    """What the engine returns. Shapes (n,). `blame[i]` is the task whose end released task i last (−1: none)."""

    start_s: Floats
    end_s: Floats
    blame: Int32s
    makespan_s: float
