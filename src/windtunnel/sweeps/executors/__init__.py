"""Where cells are computed: here, in processes of this machine, or on a Ray cluster. All give the same rows."""

from __future__ import annotations

from collections import deque
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
    number: int = 0
    """Its place among the cells of the sweep."""
    block: int = 0
    """Neighbours that are best computed by one process have the same."""


def cut(left: deque[Task], size: int, longest: int) -> list[Task]:
    """Take tasks off the front, about so many, and go on to the end of a block where that is near.

    Args:
        left: What is to be computed.
        size: Tasks wanted, 1 or more.
        longest: Tasks at most.
    """
    taken = [left.popleft() for _ in range(min(size, len(left)))]
    while left and len(taken) < longest and left[0].block == taken[-1].block:
        taken.append(left.popleft())
    return taken


class Computes(Protocol):
    """Computes tasks one after the other in one process."""

    def row(self, cell: Cell, attempt: int = 1) -> Row:
        """One cell as a row with `wall_s`; never raises but for interrupts."""


class Job(Protocol):
    """What processes are given: how tasks are computed, and what stands for one that kills its process."""

    def computer(self) -> Computes:
        """Made once in each process."""

    def crashed(self, task: Task, reason: str) -> Row:
        """The row of a task that killed its process again and again."""


class Executor(Protocol):
    """Computes tasks in any order and hands rows back as they are done."""

    @property
    def processes(self) -> int:
        """Processes that compute side by side, for estimates."""

    def rows(self, definition: Definition, tasks: Sequence[Task]) -> Iterator[list[Row]]:
        """Rows of all tasks, a few at a time; an empty list now and then, so that the caller can look up.

        Closing the iterator stops all work that is under way.
        """
