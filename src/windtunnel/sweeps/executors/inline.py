"""Cells one after another in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from windtunnel.sweeps.compute import Computer, Row
from windtunnel.sweeps.definition import Definition
from windtunnel.sweeps.executors import Task


class Inline:
    """Computes in the calling process."""

    processes = 1

    def rows(self, definition: Definition, tasks: Sequence[Task]) -> Iterator[list[Row]]:
        """See `Executor.rows`."""
        computer = Computer(definition)
        for task in tasks:
            yield [computer.row(task.cell, task.attempt)]
