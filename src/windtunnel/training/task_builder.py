"""Streams, classes of tasks and the assembly of a step program from batches of tasks given as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats, Int32s, Rows
from windtunnel.program.tables import Resources, Streams, TaskTable

TAGS = (
    "forward",
    "backward",
    "weight grad",
    "pp send",
    "dp reduce",
    "dp gather",
    "optimizer",
    "barrier",
    "offload",
    "dispatch",
)
T_F, T_B, T_W, T_SEND, T_REDUCE, T_GATHER, T_OPTIMIZER, T_BARRIER, T_OFFLOAD, T_DISPATCH = range(10)
STREAMS = ("compute", "pp", "dp reduce", "dp gather", "to host", "from host", "host", "drive reads", "drive writes")
S_COMPUTE, S_PP, S_REDUCE, S_GATHER, S_TO_HOST, S_FROM_HOST, S_HOST, S_READ, S_WRITE = range(9)
RATES = ("sm", "hbm", "scale-up", "scale-out", "host memory")
"""Shared by the tasks of a device; of host memory, its share of the node's."""
_COMM_WEIGHT = 1e6


@dataclass(slots=True, kw_only=True)
class _Group:
    """Columns of one batch of tasks before they are put in launch order."""

    key: Floats
    stage: Rows
    stream: Int32s
    alone: Floats
    tag: int
    row: Rows
    sm: Floats
    hbm: Floats
    up: Floats
    out: Floats
    host: Floats
    start: int = 0

    def __len__(self) -> int:
        return len(self.key)


@dataclass(frozen=True, slots=True)
class BuiltTables:
    """The tables of a program, in launch order."""

    tasks: TaskTable
    streams: Streams
    resources: Resources
    stage: Int32s
    row: Rows
    final: Rows
    """Provisional → final id."""


class TaskBuilder:
    """Collects task groups and dependencies; `ids` are provisional until sorted."""

    def __init__(self) -> None:
        self.groups: list[_Group] = []
        self.count = 0
        self.first_stage = self.first_id = 0
        """What stages and ids of tasks count from, in what is added and returned."""
        self.task: list[Rows] = []
        self.dep: list[Rows] = []
        self.ends: list[tuple[Rows, Rows]] = []
        """(task, what its end stands for): tasks that were split into two."""

    def begin(self, first_stage: int, first_id: int | None = None) -> None:
        """Count stages from here, and ids from the next task (or from `first_id`)."""
        self.first_stage, self.first_id = first_stage, self.count if first_id is None else first_id

    def add(
        self,
        key: npt.ArrayLike,
        stage: npt.ArrayLike,
        stream: int,
        alone: npt.ArrayLike,
        tag: int,
        *,
        row: npt.ArrayLike = -1,
        sm: npt.ArrayLike = 0.0,
        hbm: npt.ArrayLike = 0.0,
        up: npt.ArrayLike = 0.0,
        out: npt.ArrayLike = 0.0,
        host: npt.ArrayLike = 0.0,
    ) -> Rows:
        """Add tasks (arguments broadcast) and return their provisional ids."""
        k = np.atleast_1d(np.asarray(key, np.float64))
        n = len(k)

        def full(value: npt.ArrayLike) -> Floats:
            return np.broadcast_to(np.asarray(value, np.float64), (n,))

        stages = np.broadcast_to(np.asarray(stage, np.int64) + self.first_stage, (n,))
        rows = np.broadcast_to(np.asarray(row, np.int64), (n,))
        group = _Group(
            key=k,
            stage=stages,
            stream=np.full(n, stream, np.int32),
            alone=full(alone),
            tag=tag,
            row=rows,
            sm=full(sm),
            hbm=full(hbm),
            up=full(up),
            out=full(out),
            host=full(host),
            start=self.count,
        )
        self.groups.append(group)
        self.count += n
        return np.arange(group.start, self.count) - self.first_id

    def depend(self, task: npt.ArrayLike, dep: npt.ArrayLike) -> None:
        """`task[i]` starts after `dep[i]` (broadcast)."""
        t, d = np.broadcast_arrays(np.asarray(task, np.int64), np.asarray(dep, np.int64))
        self.task.append(t.ravel() + self.first_id)
        self.dep.append(d.ravel() + self.first_id)

    def ends_with(self, task: Rows, tail: Rows) -> None:
        """Whoever waits for `task[i]` waits for `tail[i]`, which follows it on its stream."""
        self.ends.append((task + self.first_id, tail + self.first_id))

    def end_of(self) -> Rows:
        """Provisional id, counted from 0 → the id whose end stands for it."""
        alias = np.arange(self.count)
        for task, tail in self.ends:
            alias[task] = tail
        return alias

    def build(self, capacity: Floats) -> BuiltTables:
        """Sort by (stage, key) and assemble the tables.

        Args:
            capacity: What one device of each stage gives of each rate, shape (p, 5).
        """

        def column(name: str) -> Floats:
            return np.concatenate([getattr(g, name) for g in self.groups])

        stage = column("stage").astype(np.int32)
        order = np.lexsort((column("key"), stage))
        final = np.empty(self.count, np.int64)
        final[order] = np.arange(self.count)
        tag = np.concatenate([np.full(len(g), g.tag, np.int32) for g in self.groups])[order]
        stage = stage[order]
        stream = (stage * len(STREAMS) + column("stream").astype(np.int32)[order]).astype(np.int32)
        task = final[np.concatenate(self.task)] if self.task else np.zeros(0, np.int64)
        dep = final[self.end_of()[np.concatenate(self.dep)]] if self.dep else np.zeros(0, np.int64)
        by_task = np.argsort(task, kind="stable")
        dep_ptr = np.zeros(self.count + 1, np.int64)
        np.cumsum(np.bincount(task, minlength=self.count), out=dep_ptr[1:])
        work = np.stack([column(name)[order] for name in ("sm", "hbm", "up", "out", "host")], axis=1)
        alone = column("alone")[order]
        work = np.minimum(work, alone[:, None] * capacity[stage])
        used = work > 0
        rate_ptr = np.zeros(self.count + 1, np.int64)
        np.cumsum(used.sum(axis=1), out=rate_ptr[1:])
        n = len(RATES)
        idx = (stage[:, None] * n + np.arange(n, dtype=np.int32)[None, :])[used].astype(np.int32)
        zero = np.zeros(self.count, np.int32)
        compute = (stream % len(STREAMS)) == S_COMPUTE
        tasks = TaskTable(
            alone_s=alone,
            weight=np.where(compute, 1.0, _COMM_WEIGHT),
            rank_class=stage,
            tag=tag,
            stream_ptr=np.arange(self.count + 1, dtype=np.int64),
            stream_idx=stream,
            dep_ptr=dep_ptr,
            dep_idx=dep[by_task].astype(np.int32),
            rate_ptr=rate_ptr,
            rate_idx=idx,
            rate_work=work[used],
            slot_pool=np.full(self.count, -1, np.int32),
            slots=zero,
            min_slots=zero,
            waves=zero,
            tags=TAGS,
        )
        p = len(capacity)
        streams = Streams(
            np.zeros(p * len(STREAMS), np.int32), np.repeat(np.arange(p, dtype=np.int32), len(STREAMS)), STREAMS * p
        )
        resources = Resources(capacity.reshape(-1), RATES * p)
        return BuiltTables(tasks, streams, resources, stage, column("row").astype(np.int64)[order], final)
