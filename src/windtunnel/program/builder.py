"""Builder of programs: append blocks of tasks with their streams, rates and slots, get the tables of `tables.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Ints
from windtunnel.program.tables import Resources, Streams, TaskTable

_Array = npt.NDArray[Any]


class _Column:
    """Arrays of one column, concatenated at the end."""

    def __init__(self, kind: type[np.generic]) -> None:
        self.kind = kind
        self.chunks: list[_Array] = []

    def append(self, values: npt.ArrayLike, count: int | None = None) -> None:
        array = np.asarray(values, dtype=self.kind)
        if count is not None:
            array = np.broadcast_to(array, (count,))
        self.chunks.append(np.array(array, copy=True).ravel())

    def joined(self) -> _Array:
        return np.concatenate(self.chunks) if self.chunks else np.zeros(0, self.kind)


def _csr(row: _Array, n: int, *columns: _Array) -> tuple[Ints, list[_Array]]:
    """Pointers of shape (n + 1,) and the columns grouped by row; entries of a row keep the order they were added in."""
    counts = np.bincount(row, minlength=n)
    ptr = np.zeros(n + 1, np.int64)
    np.cumsum(counts, out=ptr[1:])
    if len(row) and np.any(row[1:] < row[:-1]):
        order = np.argsort(row, kind="stable")
        columns = tuple(column[order] for column in columns)
    return ptr, list(columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotDemand:
    """Slots of a pool that tasks hold while they run; each field is one value or an array of shape (k,)."""

    pool: npt.ArrayLike = -1
    """Index of the pool, −1 for none."""
    slots: npt.ArrayLike = 0
    """Slots that the task wants."""
    min_slots: npt.ArrayLike | None = None
    """Fewest slots to start with; absent: all that the task wants."""
    waves: npt.ArrayLike = 0
    """Waves at the wanted slots; 0 for a persistent task."""


NO_SLOTS = SlotDemand()


class ProgramBuilder:
    """Collects blocks of tasks in launch order, without loops over tasks in Python.

    Example:
        >>> b = ProgramBuilder()
        >>> hbm = b.rate("hbm", 3.35e12)
        >>> compute, comm = b.stream("compute"), b.stream("comm")
        >>> first = b.add([1e-3, 2e-3], stream=compute, tag="compute", rates={hbm: [1e9, 2e9]})
        >>> reduce = b.add([3e-3], stream=comm, tag="dp")
        >>> b.add_dependencies(reduce, first)
        >>> tasks, streams, resources = b.build()
        >>> len(tasks)
        3
    """

    def __init__(self) -> None:
        self._n = 0
        self._columns = {
            name: _Column(kind)
            for name, kind in (
                ("alone_s", np.float64),
                ("weight", np.float64),
                ("rank_class", np.int32),
                ("tag", np.int32),
                ("slot_pool", np.int32),
                ("slots", np.int32),
                ("min_slots", np.int32),
                ("waves", np.int32),
                ("stream_row", np.int64),
                ("stream", np.int32),
                ("dep_row", np.int64),
                ("dep", np.int32),
                ("rate_row", np.int64),
                ("rate", np.int32),
                ("rate_work", np.float64),
            )
        }
        self._tags: dict[str, int] = {}
        self._streams: dict[str, int] = {}
        self._stream_priority: list[int] = []
        self._stream_class: list[int] = []
        self._rates: dict[str, int] = {}
        self._capacity: list[float] = []
        self._pools: dict[str, int] = {}
        self._pool_slots: list[int] = []

    def __len__(self) -> int:
        return self._n

    def tag(self, name: str) -> int:
        """Index of a class of time, which the first use creates."""
        return self._tags.setdefault(name, len(self._tags))

    def stream(self, name: str, *, priority: int = 0, rank_class: int = 0) -> int:
        """Index of an in-order stream, which the first use creates."""
        if name not in self._streams:
            self._streams[name] = len(self._streams)
            self._stream_priority.append(priority)
            self._stream_class.append(rank_class)
        return self._streams[name]

    def rate(self, name: str, capacity: float) -> int:
        """Index of a shared rate of `capacity` work units per second, which the first use creates."""
        if name not in self._rates:
            self._rates[name] = len(self._rates)
            self._capacity.append(capacity)
        return self._rates[name]

    def slot_pool(self, name: str, slots: int) -> int:
        """Index of a pool of slots, which the first use creates."""
        if name not in self._pools:
            self._pools[name] = len(self._pools)
            self._pool_slots.append(slots)
        return self._pools[name]

    def add(
        self,
        alone_s: npt.ArrayLike,
        *,
        stream: npt.ArrayLike | None = None,
        tag: str | npt.ArrayLike = "task",
        rank_class: npt.ArrayLike = 0,
        weight: npt.ArrayLike = 1.0,
        rates: dict[int, npt.ArrayLike] | None = None,
        slots: SlotDemand = NO_SLOTS,
    ) -> int:
        """Append a block of k tasks; every column is an array of shape (k,) or one value for all.

        Args:
            alone_s: Seconds alone, shape (k,) or a number for one task.
            stream: Stream of each task (more can be added with `add_streams`), None for no stream.
            tag: Name of the class of time, or tag indices.
            rank_class: Rank class of each task.
            weight: Share of each task under contention.
            rates: Work on each rate, by rate index.
            slots: Slots that the tasks hold.

        Returns:
            Row of the first task of the block.
        """
        alone = np.atleast_1d(np.asarray(alone_s, dtype=np.float64)).ravel()
        k, first = len(alone), self._n
        columns = self._columns
        columns["alone_s"].append(alone)
        columns["weight"].append(weight, k)
        columns["rank_class"].append(rank_class, k)
        columns["tag"].append(self.tag(tag) if isinstance(tag, str) else tag, k)
        columns["slot_pool"].append(slots.pool, k)
        columns["slots"].append(slots.slots, k)
        columns["min_slots"].append(slots.slots if slots.min_slots is None else slots.min_slots, k)
        columns["waves"].append(slots.waves, k)
        self._n += k
        rows = np.arange(first, first + k)
        if stream is not None:
            self.add_streams(rows, np.broadcast_to(np.asarray(stream), (k,)))
        for rate, work in (rates or {}).items():
            self.add_rates(rows, rate, work)
        return first

    def add_streams(self, task: npt.ArrayLike, stream: npt.ArrayLike) -> None:
        """Let tasks occupy further streams (a rendezvous); arrays are broadcast against each other."""
        self._pairs("stream_row", "stream", task, stream)

    def add_dependencies(self, task: npt.ArrayLike, dep: npt.ArrayLike) -> None:
        """Make each `task` wait for the end of each `dep`; arrays are broadcast against each other."""
        self._pairs("dep_row", "dep", task, dep)

    def add_rates(self, task: npt.ArrayLike, rate: npt.ArrayLike, work: npt.ArrayLike) -> None:
        """Add the work of whole tasks on rates; arrays are broadcast against each other."""
        rows, idx, amount = np.broadcast_arrays(np.asarray(task), np.asarray(rate), np.asarray(work))
        self._columns["rate_row"].append(rows)
        self._columns["rate"].append(idx)
        self._columns["rate_work"].append(amount)

    def _pairs(self, row_name: str, name: str, rows: npt.ArrayLike, values: npt.ArrayLike) -> None:
        task, other = np.broadcast_arrays(np.asarray(rows), np.asarray(values))
        self._columns[row_name].append(task)
        self._columns[name].append(other)

    def build(self) -> tuple[TaskTable, Streams, Resources]:
        """Concatenate the blocks into tables; more blocks can be added afterwards."""
        column = {name: c.joined() for name, c in self._columns.items()}
        n = self._n
        stream_ptr, (stream_idx,) = _csr(column["stream_row"], n, column["stream"])
        dep_ptr, (dep_idx,) = _csr(column["dep_row"], n, column["dep"])
        rate_ptr, (rate_idx, rate_work) = _csr(column["rate_row"], n, column["rate"], column["rate_work"])
        tasks = TaskTable(
            alone_s=column["alone_s"],
            weight=column["weight"],
            rank_class=column["rank_class"],
            tag=column["tag"],
            stream_ptr=stream_ptr,
            stream_idx=stream_idx,
            dep_ptr=dep_ptr,
            dep_idx=dep_idx,
            rate_ptr=rate_ptr,
            rate_idx=rate_idx,
            rate_work=rate_work,
            slot_pool=column["slot_pool"],
            slots=column["slots"],
            min_slots=column["min_slots"],
            waves=column["waves"],
            tags=_ordered(self._tags),
        )
        streams = Streams(
            priority=np.array(self._stream_priority, np.int32),
            rank_class=np.array(self._stream_class, np.int32),
            names=_ordered(self._streams),
        )
        resources = Resources(
            capacity=np.array(self._capacity, np.float64),
            names=_ordered(self._rates),
            slots=np.array(self._pool_slots, np.int32),
            slot_names=_ordered(self._pools),
        )
        return tasks, streams, resources


def _ordered(names: dict[str, int]) -> tuple[str, ...]:
    ordered: Sequence[str] = sorted(names, key=names.__getitem__)
    return tuple(ordered)
