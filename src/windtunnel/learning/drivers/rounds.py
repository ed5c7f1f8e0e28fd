"""Local steps of many rounds at once.

What a round ends at depends only on what its worker fetched, so all rounds on their way are computed together when the
first result is needed: as rows of one array, in blocks that stay in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from windtunnel.arrays import Reals
from windtunnel.learning.job import Job
from windtunnel.learning.tasks.base import Task, params_of

BLOCK_BYTES = 1 << 20
"""Of one array of a block: parameters, gradients and states of a block together stay within a core's cache."""


@dataclass(slots=True)
class Segment:
    """Local steps of one worker from known parameters: a round, or the part of it up to or after a merge midway."""

    worker: int
    start: Reals
    """Parameters, shape (params,)."""
    batch: int
    """Step of the first batch, the key of its draw."""
    steps: int
    progress: int
    """Local steps of the job at the first step, what the learning rate follows."""
    age: int = 0
    """Steps that the inner states have made before."""
    inner: dict[str, Reals] | None = None
    """Inner states before, shape (params,) each; None: fresh. Replaced by those after."""
    fetched: Reals | None = None
    """What the worker has fetched, where the segment is the end of a round; None: the first part of one."""
    moved: Reals | None = None
    """What was fetched minus the parameters after the last step; None: not computed yet."""
    end: Reals | None = None
    """Parameters after the last step, where it is the first part of a round."""
    losses: float = 0.0
    """Sum over its batches."""
    first_gradient: Reals | None = None


@dataclass(slots=True)
class Stack:
    """Computes segments; keeps its buffers."""

    task: Task
    job: Job
    proximal: float = 0.0
    first_gradients: bool = False
    rows: int = 0
    """Of a block."""
    worker_steps: int = 0
    """Computed so far."""
    _params: Reals = field(init=False)
    _gradients: Reals = field(init=False)
    _inner: dict[str, Reals] = field(init=False)

    def __post_init__(self) -> None:
        initial = self.task.initial()
        entries = params_of(self.task.shapes)
        self.rows = self.rows or max(8, BLOCK_BYTES // (entries * initial.itemsize))
        self._params = np.empty((self.rows, entries), initial.dtype)
        self._gradients = np.empty_like(self._params)
        self._inner = {name: np.empty_like(self._params) for name in self.job.inner.states}

    def compute(self, segments: Sequence[Segment]) -> None:
        """Fill `moved` or `end` of all segments, which must have neither. Their order changes nothing."""
        constant = self.job.lr.decay == "constant" and not self.job.lr.warmup_steps
        stateful = bool(self.job.inner.states)

        def alike(s: Segment) -> tuple[int, int]:
            return (0 if constant else s.progress, s.age if stateful else 0)

        ordered = sorted(segments, key=lambda s: (-s.steps, *alike(s), s.worker))
        for at in range(0, len(ordered), self.rows):
            block = ordered[at : at + self.rows]
            self._block(block, [alike(s) for s in block])

    def _block(self, block: list[Segment], alike: list[tuple[int, int]]) -> None:
        n = len(block)
        params = self._params[:n]
        for row, segment in enumerate(block):
            params[row] = segment.start
            for name, state in self._inner.items():
                state[row] = 0.0 if segment.inner is None else segment.inner[name]
        workers = np.array([s.worker for s in block])
        batches = np.array([s.batch for s in block])
        steps = [s.steps for s in block]
        losses = np.zeros(n)
        active = n
        for step in range(steps[0]):
            while steps[active - 1] <= step:
                active -= 1
            x, g = self._params[:active], self._gradients[:active]
            losses[:active] += self.task.gradients(x, workers[:active], batches[:active] + step, g)
            if self.first_gradients and not step:
                for row, segment in enumerate(block):
                    segment.first_gradient = g[row].copy()
            if self.proximal:
                for row in range(active):
                    away = x[row] - (block[row].start if (to := block[row].fetched) is None else to)
                    g[row] += away * x.dtype.type(self.proximal)
            for a, b in _runs(alike, active):
                progress, age = alike[a]
                inner = {name: state[a:b] for name, state in self._inner.items()}
                self.job.inner.step(x[a:b], g[a:b], inner, self.job.lr.at(progress + step), age + step)
        for row, segment in enumerate(block):
            if segment.fetched is None:
                segment.end = params[row].copy()
            else:
                segment.moved = segment.fetched - params[row]
            segment.losses = float(losses[row])
            if self._inner:
                segment.inner = {name: state[row].copy() for name, state in self._inner.items()}
        self.worker_steps += sum(steps)


def _runs(alike: list[tuple[int, int]], active: int) -> list[tuple[int, int]]:
    """Beginnings and ends of rows in a row that share learning rate and age."""
    if alike[0] == alike[active - 1] and all(a == alike[0] for a in alike[:active]):
        return [(0, active)]
    starts = [0, *(row for row in range(1, active) if alike[row] != alike[row - 1])]
    return list(zip(starts, [*starts[1:], active], strict=True))
