"""Data parallelism whose gradients are decoded from combinations of some workers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from windtunnel.arrays import Floats, Ints, Reals
from windtunnel.learning.aggregators.gradient_codes import decoding
from windtunnel.learning.compose import Composed
from windtunnel.learning.compressors.cast import Cast
from windtunnel.learning.messages import Message
from windtunnel.learning.state import LearnerState


@dataclass(slots=True)
class CodedGradients(Composed):
    """Every worker sends one combination of the gradients of its shards; `late` of them are not waited for.

    Shard i is the data of worker i; the sum that is decoded is that of all shards, whoever is late. Who is late is
    drawn: for gradients it does not matter, and when steps end is the clock's matter.
    """

    code: Floats = field(default_factory=lambda: np.eye(1))
    """Shape (workers, shards)."""
    late: int = 0

    def before_step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """Encode, leave out, decode."""
        answered = self.answered(step)
        weights = decoding(self.code, answered)
        sent = self.code[answered] @ gradients.astype(np.float64)
        gradients[:] = weights @ sent / self.job.workers

    def answered(self, step: int) -> Ints:
        """Workers that are not late in a step, ascending."""
        n = self.job.workers
        return np.sort(self.job.draws.order("late", step, n)[: n - self.late])

    @property
    def step_work(self) -> float:
        """As many shards as a row of the code has."""
        return float((self.code != 0).sum(axis=1).max())

    def messages(self, step: int) -> tuple[Message, ...]:
        """One gradient's size up from every worker, one down."""
        if self.job.workers == 1:
            return ()
        return (
            Message(kind="to_server", wire=Cast(32), after_step=step, needed_by=step + 1, late=self.late),
            Message(kind="from_server", wire=Cast(32), after_step=step, needed_by=step + 1),
        )
