"""Compute the cells that a folder does not have yet, and keep them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from windtunnel.sweeps.compute import COLD, COMPILED, CRASHED, ERROR
from windtunnel.sweeps.definition import Definition
from windtunnel.sweeps.executors import Executor, Task
from windtunnel.sweeps.order import in_mixed_order
from windtunnel.sweeps.pace import Pace
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
    left_s: float | None = None
    """Seconds that the rest takes (`windtunnel.sweeps.pace`); None before something is known of it."""


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
        for number, cell in enumerate(definition.cells()):
            total += 1
            status, attempt = known.get(cell.id, ("", 0))
            if not status or (wishes.retry and status in (ERROR, CRASHED)):
                tasks.append(Task(cell, attempt + 1, number))
            else:
                before += 1
        tasks = in_mixed_order(tasks, definition)
        statuses: Counter[str] = Counter()
        done = before
        interrupted = False

        pace = Pace(len(tasks), wishes.executor.processes)

        def progress() -> Progress:
            pace.processes = wishes.executor.processes
            return Progress(
                done=done,
                total=total,
                before=before,
                statuses=dict(statuses),
                seconds=time.monotonic() - begun,
                left_s=pace.left_s(),
            )

        wishes.report(progress())
        try:
            with closing(_rows(wishes.executor, definition, tasks)) as batches:
                for rows in batches:
                    done += len(rows)
                    statuses.update(row["status"] for row in rows)
                    for row in rows:
                        pace.note(row["wall_s"] - row.pop(COMPILED, 0.0), cold=row.pop(COLD, False))
                    store.add(rows)
                    wishes.report(progress())
        except KeyboardInterrupt:
            interrupted = True
        return Outcome(folder=folder, progress=progress(), interrupted=interrupted, quarantined=store.quarantined)


def _rows(executor: Executor, definition: Definition, tasks: list[Task]):  # type: ignore[no-untyped-def]
    yield from executor.rows(definition, tasks)
