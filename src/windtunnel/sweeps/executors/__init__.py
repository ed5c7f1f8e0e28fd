"""Where cells are computed: here, in processes of this machine, or on a Ray cluster. All give the same rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from windtunnel.sweeps.cells import Cell
from windtunnel.sweeps.compute import Row
from windtunnel.sweeps.definition import Definition


@dataclass(frozen=True, slots=True)
class Task:
    """A cell to compute, and how often that has been tried."""

    cell: Cell
    attempt: int = 1


class Executor(Protocol):
    """Computes tasks in any order and hands rows back as they are done."""

    def rows(self, definition: Definition, tasks: Sequence[Task]) -> Iterator[list[Row]]:
        """Rows of all tasks, a few at a time; an empty list now and then, so that the caller can look up.

        Closing the iterator stops all work that is under way.
        """
