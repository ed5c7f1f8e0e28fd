"""Streams and classes of the tasks of a step, and the builder that makes a program of batches of tasks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats, Int32s, Rows
from windtunnel.program.comm_work import CommWork
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
"""Rates that the tasks of a device share; of host memory, a device has an even share of its node's."""
_COMM_WEIGHT = 1e6


@dataclass(slots=True, kw_only=True)
class _Batch:
    """Columns of one batch of tasks before they are put in launch order."""

    key: Floats
    stage: Rows
    stream: Int32s
    work: CommWork
    tag: int
    row: Rows
    host_bytes: Floats

    def __len__(self) -> int:
        return len(self.key)

    @property
    def on_rates(self) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """Work on each of `RATES`."""
        work = self.work
        return work.sm_seconds, work.hbm_bytes, work.scale_up_bytes, work.scale_out_bytes, self.host_bytes


@dataclass(frozen=True, slots=True)
class BuiltTables:
    """The tables of a program, in launch order."""

    tasks: TaskTable
    streams: Streams
    resources: Resources
    stage: Int32s
    row: Rows
    final: Rows
    """Final id of each provisional one."""


class TaskBuilder:
    """Collects batches of tasks and their dependencies; ids are provisional until `build` sorts the tasks."""

    def __init__(self) -> None:
        self.batches: list[_Batch] = []
        self.count = 0
        self.first_stage = self.first_id = 0
        """What stages and ids of tasks count from, in what is added and returned."""
        self.task: list[Rows] = []
        self.dep: list[Rows] = []
        self.ends: list[tuple[Rows, Rows]] = []
        """(task, task whose end stands for its end), where a task was split into two."""

    def begin(self, first_stage: int, first_id: int | None = None) -> None:
        """Count stages from here, and ids from the next task (or from `first_id`)."""
        self.first_stage, self.first_id = first_stage, self.count if first_id is None else first_id

    def add(
        self,
        key: npt.ArrayLike,
        stage: npt.ArrayLike,
        stream: int,
        work: CommWork | npt.ArrayLike,
        tag: int,
        *,
        row: npt.ArrayLike = -1,
        host_bytes: npt.ArrayLike = 0.0,
    ) -> Rows:
        """Add tasks and return their provisional ids. Arguments broadcast to the n keys.

        Args:
            key: Position in the launch order of a stage.
            stage: Pipeline stage.
            stream: One of `STREAMS`, by its number.
            work: Seconds alone and work on shared rates; plain seconds for tasks that share none.
            tag: One of `TAGS`, by its number.
            row: Instruction that tasks belong to, −1 for none.
            host_bytes: Bytes of host memory that are read and written.
        """
        keys = np.atleast_1d(np.asarray(key, np.float64))
        n, first = len(keys), self.count
        given = work if isinstance(work, CommWork) else CommWork.of(work)
        batch = _Batch(
            key=keys,
            stage=np.broadcast_to(np.asarray(stage, np.int64) + self.first_stage, (n,)),
            stream=np.full(n, stream, np.int32),
            work=CommWork(*(np.broadcast_to(column, (n,)) for column in given.columns)),
            tag=tag,
            row=np.broadcast_to(np.asarray(row, np.int64), (n,)),
            host_bytes=np.broadcast_to(np.asarray(host_bytes, np.float64), (n,)),
        )
        self.batches.append(batch)
        self.count += n
        return np.arange(first, self.count) - self.first_id

    def depend(self, task: npt.ArrayLike, dep: npt.ArrayLike) -> None:
        """Let `task[i]` start after `dep[i]` has ended (broadcast)."""
        t, d = np.broadcast_arrays(np.asarray(task, np.int64), np.asarray(dep, np.int64))
        self.task.append(t.ravel() + self.first_id)
        self.dep.append(d.ravel() + self.first_id)

    def ends_with(self, task: Rows, tail: Rows) -> None:
        """Let whatever waits for `task[i]` wait for `tail[i]`, which follows it on its stream."""
        self.ends.append((task + self.first_id, tail + self.first_id))

    def end_of(self) -> Rows:
        """The id whose end stands for each provisional id, counted from 0."""
        alias = np.arange(self.count)
        for task, tail in self.ends:
            alias[task] = tail
        return alias

    def build(self, capacity: Floats) -> BuiltTables:
        """Sort by (stage, key) and assemble the tables.

        Args:
            capacity: (p, 5): what one device of each stage gives of each of `RATES`.
        """
        stage = np.concatenate([batch.stage for batch in self.batches]).astype(np.int32)
        order = np.lexsort((np.concatenate([batch.key for batch in self.batches]), stage))
        final = np.empty(self.count, np.int64)
        final[order] = np.arange(self.count)
        stages = len(capacity)
        streams = Streams(
            np.zeros(stages * len(STREAMS), np.int32),
            np.repeat(np.arange(stages, dtype=np.int32), len(STREAMS)),
            STREAMS * stages,
        )
        row = np.concatenate([batch.row for batch in self.batches]).astype(np.int64)[order]
        return BuiltTables(
            self._task_table(stage[order], order, final, capacity),
            streams,
            Resources(capacity.reshape(-1), RATES * stages),
            stage[order],
            row,
            final,
        )

    def _task_table(self, stage: Int32s, order: Rows, final: Rows, capacity: Floats) -> TaskTable:
        """The tasks in launch order, with the final ids of those that each waits for."""
        tag = np.concatenate([np.full(len(batch), batch.tag, np.int32) for batch in self.batches])[order]
        own_stream = np.concatenate([batch.stream for batch in self.batches]).astype(np.int32)[order]
        seconds = np.concatenate([batch.work.seconds for batch in self.batches])[order]
        rate_ptr, rate_idx, rate_work = self._rates(stage, order, seconds, capacity)
        dep_ptr, dep_idx = self._dependencies(final)
        zero = np.zeros(self.count, np.int32)
        return TaskTable(
            alone_s=seconds,
            weight=np.where(own_stream == S_COMPUTE, 1.0, _COMM_WEIGHT),
            rank_class=stage,
            tag=tag,
            stream_ptr=np.arange(self.count + 1, dtype=np.int64),
            stream_idx=(stage * len(STREAMS) + own_stream).astype(np.int32),
            dep_ptr=dep_ptr,
            dep_idx=dep_idx,
            rate_ptr=rate_ptr,
            rate_idx=rate_idx,
            rate_work=rate_work,
            slot_pool=np.full(self.count, -1, np.int32),
            slots=zero,
            min_slots=zero,
            waves=zero,
            tags=TAGS,
        )

    def _dependencies(self, final: Rows) -> tuple[Rows, Int32s]:
        """Pointers per task and the tasks that it waits for, by final ids."""
        task = final[np.concatenate(self.task)] if self.task else np.zeros(0, np.int64)
        dep = final[self.end_of()[np.concatenate(self.dep)]] if self.dep else np.zeros(0, np.int64)
        by_task = np.argsort(task, kind="stable")
        dep_ptr = np.zeros(self.count + 1, np.int64)
        np.cumsum(np.bincount(task, minlength=self.count), out=dep_ptr[1:])
        return dep_ptr, dep[by_task].astype(np.int32)

    def _rates(self, stage: Int32s, order: Rows, seconds: Floats, capacity: Floats) -> tuple[Rows, Int32s, Floats]:
        """Pointers per task, the rates that it uses and its work on each, at most what a rate gives while it runs."""
        columns = [
            np.concatenate(column)[order] for column in zip(*(batch.on_rates for batch in self.batches), strict=True)
        ]
        work = np.minimum(np.stack(columns, axis=1), seconds[:, None] * capacity[stage])
        used = work > 0
        rate_ptr = np.zeros(self.count + 1, np.int64)
        np.cumsum(used.sum(axis=1), out=rate_ptr[1:])
        rates = len(RATES)
        rate_idx = (stage[:, None] * rates + np.arange(rates, dtype=np.int32)[None, :])[used].astype(np.int32)
        return rate_ptr, rate_idx, work[used]
