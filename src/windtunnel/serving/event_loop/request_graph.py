"""Requests that wait for several others: calls of agents as a graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Int32s, Ints


@dataclass(frozen=True, slots=True)
class Dependencies:
    """Order among R requests, with E edges and J joints.

    A joint, numbered R + j, is over when everything that it waits for is over; it takes no time.
    """

    start: Ints
    """(R + J + 1,) where each request's (or joint's) children begin."""
    children: Int32s
    """(E,) requests and joints that wait for it."""
    task: Int32s
    """(R,) which task each belongs to."""


class Waits:
    """What is still waited for, during a run."""

    def __init__(self, after: Dependencies) -> None:
        self.count = len(after.task)
        count = len(after.start) - 1
        start, children = after.start.tolist(), after.children.tolist()
        self.children = [children[start[i] : start[i + 1]] for i in range(count)]
        self.pending: list[int] = np.bincount(after.children, minlength=count).tolist()
        self.task: list[int] = after.task.tolist()
        self.left: list[int] = np.bincount(after.task).tolist()

    def ended(self, i: int) -> tuple[list[int], bool]:
        """Requests that wait for nothing more now, and whether the whole task is over."""
        ready: list[int] = []
        over = [i]
        while over:
            for c in self.children[over.pop()]:
                self.pending[c] -= 1
                if not self.pending[c]:
                    (ready if c < self.count else over).append(c)
        self.left[self.task[i]] -= 1
        return ready, not self.left[self.task[i]]
