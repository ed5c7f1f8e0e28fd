"""Rounds with a server: clients fetch its parameters, step on them, and upload how far they have moved.

The frame of federated algorithms in lock-step. Rows of the state are places of a round, not clients: a round of ten of
a thousand clients computes ten gradients a step. What a client keeps from round to round is kept by its number.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from windtunnel.arrays import Floats, Ints, Reals
from windtunnel.learning.compressors.base import Compressor
from windtunnel.learning.compressors.cast import Cast
from windtunnel.learning.inner.base import InnerOptimizer
from windtunnel.learning.job import Job
from windtunnel.learning.messages import Message, Plain
from windtunnel.learning.outer.base import OuterOptimizer
from windtunnel.learning.participation.sample import Sample
from windtunnel.learning.state import LearnerState, started
from windtunnel.learning.tasks.base import Task
from windtunnel.learning.tasks.splits import sizes_of
from windtunnel.techniques.knobs import Knob

LOCAL_STEPS = Knob(10, 1, 1_000_000, "K: local steps of a round")
ACTIVE = Knob(0, 0, 100_000, "m: clients of a round, drawn anew each time; 0: all")
SERVER_LR = Knob(1.0, 0.0, 10.0, "share of the way to the mean of the clients")
BY_SAMPLES = Knob(True, doc="clients count by the samples that they have")


@dataclass(slots=True, kw_only=True)
class Federated:
    """A `LockStepAlgorithm` that takes its own gradients."""

    job: Job
    local_steps: int
    outer: OuterOptimizer
    inner: InnerOptimizer
    """Of clients; its states begin afresh in each round."""
    active: int = 0
    """m: clients of a round; 0: all."""
    proximal: float = 0.0
    """ρ: gradients are those of loss + ρ/2·|x − a|²."""
    by_samples: bool = False
    """Whether clients count by their samples."""
    upload: Compressor = field(default_factory=lambda: Cast(32))
    copies_up: float = 1.0
    copies_down: float = 1.0
    clients: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """Of the round under way, ascending, shape (m,)."""
    _weights: Floats | None = None
    """Of all clients, shape (workers,); None: they count alike."""

    # -- `LockStepAlgorithm`

    def start(self, initial: Reals) -> LearnerState:
        """See `LockStepAlgorithm.start`; rows are places of a round."""
        state = started(initial, self.places)
        state.inner = {name: np.zeros_like(state.params) for name in self.inner.states}
        state.anchor = initial[None, :].copy()
        state.outer = {name: np.zeros_like(state.anchor) for name in self.outer.states}
        return state

    def own_gradients(self, task: Task, state: LearnerState, step: int, out: Reals) -> Floats:
        """Gradients of the round's clients; a round begins with the server's parameters and fresh inner states."""
        assert state.anchor is not None
        if step % self.local_steps == 0:
            self.clients = self.chosen(step // self.local_steps)
            state.params[:] = state.anchor
            for values in state.inner.values():
                values[:] = 0.0
        if self.by_samples and self._weights is None:
            self._weights = sizes_of(task)
        losses = task.gradients(state.params, self.clients, np.full(self.places, step), out)
        if self.proximal:
            out += out.dtype.type(self.proximal) * (state.params - state.anchor)
        self.correct(state, out)
        return losses

    def before_step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """Gradients stay with their clients."""

    def step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """See `LockStepAlgorithm.step`; steps of the inner optimizer are counted from the round's begin."""
        self.inner.step(state.params, gradients, state.inner, self.job.lr.at(step), step % self.local_steps)

    def after_step(self, state: LearnerState, step: int) -> None:
        """See `LockStepAlgorithm.after_step`."""
        if (step + 1) % self.local_steps == 0:
            self.end_round(state, step)

    def messages(self, step: int) -> tuple[Message, ...]:
        """Uploads at the end of a round, then downloads of the next one's clients; all begin with the same model."""
        if (step + 1) % self.local_steps:
            return ()
        number = step // self.local_steps
        up = Message(
            kind="to_server",
            wire=self.upload,
            copies=self.copies_up,
            participants=self._told(number),
            after_step=step,
            needed_by=step + 1,
        )
        down = replace(
            up, kind="from_server", wire=Plain(), copies=self.copies_down, participants=self._told(number + 1)
        )
        return up, down

    def reported(self, state: LearnerState) -> Reals:
        """The server's parameters."""
        assert state.anchor is not None
        return state.anchor

    # -- what algorithms change

    def correct(self, state: LearnerState, gradients: Reals) -> None:
        """Change the gradients of the round's clients, in place."""

    def end_round(self, state: LearnerState, step: int) -> None:
        """Step the server on the mean of what clients upload."""
        assert state.anchor is not None
        moved = state.anchor - state.params
        uploads = self.upload.decoded(moved, self.job.shapes, self.job.draws, self.clients, step)
        self.outer.step(state.anchor, self.mean(uploads), state.outer, step // self.local_steps)

    # -- rounds

    @property
    def places(self) -> int:
        """Clients of a round."""
        return Sample(self.active).width(self.job.workers) if self.active else self.job.workers

    def chosen(self, number: int) -> Ints:
        """Clients of a round, ascending, shape (m,)."""
        return Sample(self.active)(self.job, number) if self.active else self.job.everyone

    def mean(self, rows: Reals) -> Reals:
        """Mean of the clients' rows, shape (1, params), by their samples where asked."""
        if self._weights is None:
            return np.asarray(rows.mean(axis=0, keepdims=True))
        weights = self._weights[self.clients]
        return np.asarray((rows * (weights / weights.sum()).astype(rows.dtype)[:, None]).sum(axis=0, keepdims=True))

    def _told(self, number: int) -> tuple[int, ...]:
        return tuple(self.chosen(number).tolist()) if self.active else ()
