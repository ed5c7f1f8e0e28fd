"""Requests that wait for several others: calls of agents as a graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Longs = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Dependencies:
    """Of R requests, E edges."""

    start: Longs
    """(R + 1,) where each request's children begin."""
    children: Ints
    """(E,) requests that wait for it."""
    task: Ints
    """(R,) which task each belongs to."""


class Waits:
    """What is still waited for, during a run."""

    def __init__(self, after: Dependencies) -> None:
        count = len(after.task)
        start, children = after.start.tolist(), after.children.tolist()
        self.children = [children[start[i] : start[i + 1]] for i in range(count)]
        self.pending: list[int] = np.bincount(after.children, minlength=count).tolist()
        self.task: list[int] = after.task.tolist()
        self.left: list[int] = np.bincount(after.task).tolist()

    def ended(self, i: int) -> tuple[list[int], bool]:
        """Requests that wait for nothing more now, and whether the whole task is over."""
        ready = []
        for c in self.children[i]:
            self.pending[c] -= 1
            if not self.pending[c]:
                ready.append(c)
        self.left[self.task[i]] -= 1
        return ready, not self.left[self.task[i]]
