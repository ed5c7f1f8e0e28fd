"""Compute the cells that a folder does not have yet, and keep them."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from windtunnel.sweeps.compute import CRASHED, ERROR
from windtunnel.sweeps.definition import Definition
from windtunnel.sweeps.executors import Executor, Task
from windtunnel.sweeps.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a sweep is."""

    done: int
    total: int
    """Cells of the sweep."""
    before: int
    """Cells that were there when it started."""
    statuses: dict[str, int]
    """Of the cells computed since."""
    seconds: float
    """Since it started."""
    pace_s: float | None = None
    """Seconds a cell since the first one was done; None before some are."""

    @property
    def left_s(self) -> float | None:
        """Seconds that the rest takes at the pace so far; None while no pace is known."""
        return None if self.pace_s is None else self.pace_s * (self.total - self.done)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a call has done."""

    folder: Path
    progress: Progress
    interrupted: bool
    quarantined: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every cell has a row."""
        return self.progress.done >= self.progress.total


@dataclass(slots=True, kw_only=True)
class Wishes:
    """How a sweep is to be computed; none of it changes a row's figures."""

    executor: Executor
    extend: bool = False
    retry: bool = False
    """Whether cells that ended in errors of ours or with their process are computed again."""
    report: Callable[[Progress], None] = field(default=lambda _: None)


BLOCK = 48
"""Neighbouring cells that are computed together, because they share prices."""


def in_mixed_order(tasks: list[Task], seed: int) -> list[Task]:
    """Tasks in blocks of neighbours, the blocks in random order.

    What is done is then a fair sample of all, so that the pace and the first figures stand for the rest.
    """
    blocks = [tasks[i : i + BLOCK] for i in range(0, len(tasks), BLOCK)]
    random.Random(seed).shuffle(blocks)
    return [task for block in blocks for task in block]


@dataclass(slots=True)
class _Pace:
    """When how many cells were done."""

    marks: list[tuple[float, int]] = field(default_factory=list)

    def note(self, done: int) -> None:
        """Remember a moment, about ten a second at most."""
        now = time.monotonic()
        if not self.marks or (now - self.marks[-1][0] > 0.1 and done > self.marks[-1][1]):
            self.marks.append((now, done))

    def seconds(self) -> float | None:
        """Seconds a cell since the first one, which loads tables."""
        if len(self.marks) < 2:
            return None
        (first, had), (last, done) = self.marks[0], self.marks[-1]
        return (last - first) / (done - had)


def execute(definition: Definition, folder: Path, wishes: Wishes) -> Outcome:
    """Compute what is missing. Ctrl-C keeps what is done and returns.

    Raises:
        BadInput: the folder cannot be used.
    """
    begun = time.monotonic()
    with Store(folder, definition, wishes.extend) as store:
        known = store.done()
        tasks = []
        total = before = 0
        for cell in definition.cells():
            total += 1
            status, attempt = known.get(cell.id, ("", 0))
            if not status or (wishes.retry and status in (ERROR, CRASHED)):
                tasks.append(Task(cell, attempt + 1))
            else:
                before += 1
        tasks = in_mixed_order(tasks, definition.seed)
        statuses: Counter[str] = Counter()
        done = before
        interrupted = False

        pace = _Pace()

        def progress() -> Progress:
            return Progress(
                done=done,
                total=total,
                before=before,
                statuses=dict(statuses),
                seconds=time.monotonic() - begun,
                pace_s=pace.seconds(),
            )

        wishes.report(progress())
        try:
            with closing(_rows(wishes.executor, definition, tasks)) as batches:
                for rows in batches:
                    done += len(rows)
                    statuses.update(row["status"] for row in rows)
                    pace.note(done)
                    store.add(rows)
                    wishes.report(progress())
        except KeyboardInterrupt:
            interrupted = True
        return Outcome(folder=folder, progress=progress(), interrupted=interrupted, quarantined=store.quarantined)


def _rows(executor: Executor, definition: Definition, tasks: list[Task]):  # type: ignore[no-untyped-def]
    yield from executor.rows(definition, tasks)
