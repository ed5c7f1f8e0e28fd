"""Cells in processes of this machine, under a supervisor that outlives any of them.

`concurrent.futures.ProcessPoolExecutor` breaks all its futures when one process dies, and leaves processes behind when
its own dies. Here each process has a pipe: where its end is closed the process ends, and where a process dies its
chunk is given out again, one cell at a time once it has died twice, until a cell that kills alone is known. A process
that dies before it can compute anything is no cell's fault: after a few of those in a row all work ends with one error.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from windtunnel.child_processes import die_with
from windtunnel.errors import WindtunnelError
from windtunnel.sweeps.compute import Cells, Row
from windtunnel.sweeps.definition import Definition
from windtunnel.sweeps.executors import Job, Task, cut

CHUNK_S = 1.0
"""Seconds of work that a process is given at a time, once the pace is known."""
BLOCK_CHUNKS = 4
"""Chunks of `CHUNK_S` that a process is given at once so that a block of neighbours is not torn."""
DEATHS = 3
"""Deaths of processes after which a cell that was computed alone counts as the killer."""
STILLBORN = 3
"""Processes in a row that die of themselves before they can compute a cell, after which no more are started."""
STILLBORN_KILLED = 20
"""The same of processes in a row that SIGKILL or SIGTERM ends, which come from elsewhere and may stop."""
LOOK_UP_S = 0.5
_READY = "ready"
"""What a process says once it can compute cells."""


@dataclass(slots=True)
class _Chunk:
    tasks: list[Task]
    deaths: int = 0


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    pipe: Connection
    chunk: _Chunk | None = None
    done: int = 0
    """Tasks of the chunk whose rows have come."""
    ready: bool = False
    """Whether it has come so far that it can compute cells."""
    failure: str = ""
    """What its start-up failed with, where it could tell."""


@dataclass(slots=True)
class Processes:
    """Computes in `count` processes."""

    count: int
    _workers: list[_Worker] = field(default_factory=list)
    _waiting: deque[_Chunk] = field(default_factory=deque)
    _pace_s: float = 0.0
    _stillborn: int = 0
    _stillborn_killed: int = 0

    @property
    def processes(self) -> int:
        """See `Executor.processes`."""
        return self.count

    def rows(self, definition: Definition, tasks: Sequence[Task]) -> Iterator[list[Row]]:
        """See `Executor.rows`."""
        return self.run(Cells(definition), tasks)

    def run(self, job: Job, tasks: Sequence[Task]) -> Iterator[list[Row]]:
        """Rows of the tasks of any job. The first process warms caches on disk before others start.

        Raises:
            WindtunnelError: processes die before they can compute a cell, again and again.
        """
        left = deque(tasks)
        total, told = len(left), 0
        try:
            while told < total:
                self._employ(job, left, warm=told > 0)
                ready = wait([w.pipe for w in self._workers if w.chunk is not None], timeout=LOOK_UP_S)
                fresh: list[Row] = []
                for pipe in ready:
                    worker = next(w for w in self._workers if w.pipe is pipe)
                    fresh += self._received(worker, job)
                told += len(fresh)
                yield fresh
        finally:
            self._stop()

    def _employ(self, job: Job, left: deque[Task], warm: bool) -> None:
        """Start processes while there is work for them, and give each idle one a chunk."""
        wanted = self.count if warm else 1
        while len(self._workers) < wanted and (left or self._waiting):
            self._workers.append(_started(job))
        for worker in self._workers[:wanted]:
            if worker.chunk is not None:
                continue
            chunk = self._waiting.popleft() if self._waiting else self._cut(left)
            if chunk is None:
                continue
            worker.chunk, worker.done = chunk, 0
            try:
                worker.pipe.send(chunk.tasks)
            except (BrokenPipeError, OSError):
                pass  # it has died; `wait` says so

    def _cut(self, left: deque[Task]) -> _Chunk | None:
        if not left:
            return None
        size = 1 if not self._pace_s else max(1, int(CHUNK_S / self._pace_s))
        share = max(1, len(left) // (2 * self.count))
        return _Chunk(cut(left, min(size, share), min(BLOCK_CHUNKS * size, share)))

    def _received(self, worker: _Worker, job: Job) -> list[Row]:
        assert worker.chunk is not None
        try:
            told: Row | str = worker.pipe.recv()
        except (EOFError, OSError):
            return self._buried(worker, job)
        if isinstance(told, str):
            worker.ready, worker.failure = told == _READY, "" if told == _READY else told
            if worker.ready:
                self._stillborn = self._stillborn_killed = 0
            return []
        row = told
        worker.done += 1
        pace = row["wall_s"]
        self._pace_s = pace if not self._pace_s else 0.9 * self._pace_s + 0.1 * pace
        if worker.done == len(worker.chunk.tasks):
            worker.chunk = None
        return [row]

    def _buried(self, worker: _Worker, job: Job) -> list[Row]:
        """Give a dead process's tasks out again; a cell that kills alone becomes a row."""
        chunk = worker.chunk
        assert chunk is not None
        worker.process.join(timeout=5.0)
        code = worker.process.exitcode
        worker.pipe.close()
        self._workers.remove(worker)
        cause = f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
        if not worker.ready:
            self._waiting.appendleft(chunk)
            self._count_stillborn(worker.failure or cause, killed=code in (-signal.SIGKILL, -signal.SIGTERM))
            return []
        left, deaths = chunk.tasks[worker.done :], chunk.deaths + 1
        if len(left) == 1 and deaths >= DEATHS:
            return [job.crashed(left[0], f"its process died {deaths} times ({cause})")]
        if deaths >= 2 and len(left) > 1:
            half = len(left) // 2
            self._waiting.extend((_Chunk(left[:half], deaths - 1), _Chunk(left[half:], deaths - 1)))
        else:
            self._waiting.append(_Chunk(left, deaths))
        return []

    def _count_stillborn(self, why: str, *, killed: bool) -> None:
        """Count a process that died before it could compute a cell.

        Raises:
            WindtunnelError: it is one too many in a row.
        """
        self._stillborn += not killed
        self._stillborn_killed += killed
        if self._stillborn >= STILLBORN or self._stillborn_killed >= STILLBORN_KILLED:
            times = self._stillborn + self._stillborn_killed
            raise WindtunnelError(
                f"processes cannot be started: {times} in a row died before their first cell, the last with {why}; "
                "what was computed before is kept; one process (-j 1) computes without starting others"
            )

    def _stop(self) -> None:
        for worker in self._workers:
            worker.pipe.close()
        limit = time.monotonic() + 2.0
        for worker in self._workers:
            worker.process.join(timeout=max(0.0, limit - time.monotonic()))
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
        self._workers.clear()


def _started(job: Job) -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    kept = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(_ONE_THREAD)
    try:
        process = context.Process(target=work, args=(theirs, job, os.getpid()), daemon=True)
        process.start()
    finally:
        for name, value in kept.items():
            os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)
    theirs.close()
    return _Worker(process, ours)


_ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}


def work(pipe: Any, job: Job, parent: int) -> None:
    """What a process does: rows for tasks, until the pipe's other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with(parent)
    try:
        computer = job.computer()
    except Exception as error:  # told by the supervisor, once
        pipe.send(f"{type(error).__name__}: {error}")
        return
    try:
        pipe.send(_READY)
    except OSError:
        return
    while True:
        try:
            tasks: list[Task] = pipe.recv()
            for task in tasks:
                pipe.send(computer.row(task.cell, task.attempt))
        except (EOFError, OSError):
            return
