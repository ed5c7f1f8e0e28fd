"""Just one byte: a step along drawn directions, of which only the slopes travel, a byte each; seeds say the rest.

s = (f(x + εu) − f(x − εu))/2ε along u drawn from (worker, step); every replica draws everybody's u and steps by
−η⟨s·u⟩. All hold the same bits, and who joins late replays the bytes from the start.

Source: Zelikman et al. 2023 (arXiv 2306.10015); the estimator is that of Spall 1992 and of MeZO (arXiv 2305.17333).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats, Reals
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.compose import Composed
from windtunnel.learning.compressors.dynamic_tree8 import numbers
from windtunnel.learning.job import Job
from windtunnel.learning.messages import Message
from windtunnel.learning.state import LearnerState
from windtunnel.learning.tasks.base import Shapes, Task
from windtunnel.techniques.knobs import Knob

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Slopes:
    """One byte a direction, whatever the model."""

    directions: int

    def nbytes(self, shapes: Shapes) -> float:
        """See `WireFormat.nbytes`."""
        del shapes
        return float(self.directions)


@dataclass(slots=True)
class OneByteZO(Composed):
    """See the module. `log` holds the bytes of all steps, shape (workers, directions) each."""

    epsilon: float = 1e-3
    largest: float = 100.0
    directions: int = 1
    log: list[Bytes] = field(default_factory=list)

    def start(self, initial: Reals) -> LearnerState:
        """An empty log."""
        self.log = []
        return Composed.start(self, initial)

    def own_gradients(self, task: Task, state: LearnerState, step: int, out: Reals) -> Floats:
        """Slopes of each worker's loss along its own directions; see `TakesOwnGradients`."""
        job, steps = self.job, np.full(self.job.workers, step)
        slopes, losses = np.empty((job.workers, self.directions)), np.zeros(job.workers)
        for k in range(self.directions):
            u = self.direction(step, k, state.params.dtype) * state.params.dtype.type(self.epsilon)
            above = task.gradients(state.params + u, job.everyone, steps, out)
            below = task.gradients(state.params - u, job.everyone, steps, out)
            slopes[:, k] = (above - below) / (2.0 * self.epsilon)
            losses += (above + below) / (2.0 * self.directions)
        self.log.append(self.byte_of(slopes))
        return losses

    def before_step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """Every replica puts the gradient estimate together from the bytes of all."""
        gradients[:] = self.estimate(self.log[step], step, gradients.dtype)

    def step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """See `LockStepAlgorithm.step`."""
        state.params -= gradients * gradients.dtype.type(self.job.lr.at(step))

    def direction(self, step: int, k: int, dtype: npt.DTypeLike) -> Reals:
        """Standard normal u of every worker, shape (workers, params)."""
        entries = sum(int(np.prod(shape)) for shape in self.job.shapes)
        return self.job.draws.normals(f"direction {k}", self.job.everyone, step, entries).astype(dtype)

    def byte_of(self, slopes: Floats) -> Bytes:
        """The nearest number of the 8-bit dynamic tree, in units of `largest`."""
        table = numbers("tree")
        return np.searchsorted((table[1:] + table[:-1]) / 2, slopes / self.largest).astype(np.uint8)

    def slope_of(self, message: Bytes) -> Floats:
        """What a byte says."""
        return np.asarray(numbers("tree")[message] * self.largest)

    def estimate(self, message: Bytes, step: int, dtype: npt.DTypeLike) -> Reals:
        """⟨s·u⟩ over workers and directions, shape (params,), from a step's bytes, shape (workers, directions)."""
        slopes = self.slope_of(message).astype(dtype)
        total = sum((slopes[:, k, None] * self.direction(step, k, dtype)).sum(axis=0) for k in range(self.directions))
        return np.asarray(total / np.asarray(message.size, dtype), dtype)

    def replayed(self, initial: Reals, log: list[Bytes]) -> Reals:
        """Parameters of one who joins late, shape (params,): the same bits as everybody's."""
        row = initial.copy()
        for step, message in enumerate(log):
            row -= self.estimate(message, step, row.dtype) * row.dtype.type(self.job.lr.at(step))
        return row

    @property
    def step_work(self) -> float:
        """Two forwards a direction, where a step is three: a backward is as much as two."""
        return 2.0 * self.directions / 3.0

    def messages(self, step: int) -> tuple[Message, ...]:
        """A byte a direction, to all."""
        if self.job.workers == 1:
            return ()
        return (Message(kind="all_gather", wire=Slopes(self.directions), after_step=step, needed_by=step + 1),)


def build(job: Job, knobs: dict[str, Any]) -> OneByteZO:
    """Plain steps at the learning rate; the inner optimizer is not asked."""
    return OneByteZO(job, epsilon=knobs["epsilon"], largest=knobs["largest"], directions=knobs["directions"])


ALGORITHMS.add(
    "one-byte-zo",
    AlgorithmKind(
        id="one-byte-zo",
        summary="steps along drawn directions, of which only a byte travels",
        build=build,
        knobs={
            "epsilon": Knob(1e-3, 1e-9, 1.0, "ε: half the distance between the two losses"),
            "largest": Knob(100.0, 1e-9, 1e9, "slope that the largest byte stands for"),
            "directions": Knob(1, 1, 1000, "directions of a worker's step"),
        },
        family="compression",
        source="Zelikman et al. 2023 (arXiv 2306.10015)",
    ),
)
