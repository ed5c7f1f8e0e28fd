"""Extragradient: a trial step, then the step itself with the field found there. The baseline of saddle-point methods.

Source: Korpelevich 1976; Juditsky et al. 2011 for stochastic fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Reals
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.compose import Composed
from windtunnel.learning.compressors.cast import Cast
from windtunnel.learning.job import Job
from windtunnel.learning.messages import Message
from windtunnel.learning.state import LearnerState
from windtunnel.learning.tasks.base import Task


@dataclass(slots=True)
class Extragradient(Composed):
    """z½ = z − γF(z); z ← z − γF(z½), where F is the mean over workers."""

    def own_gradients(self, task: Task, state: LearnerState, step: int, out: Reals) -> Floats:
        """Fields at the trial point; see `TakesOwnGradients`."""
        job, steps = self.job, np.full(self.job.workers, step)
        losses = task.gradients(state.params, job.everyone, steps, out)
        trial = state.params - job.lr.at(step) * out.mean(axis=0)
        task.gradients(trial, job.everyone, steps, out)
        return losses

    def before_step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """See `LockStepAlgorithm.before_step`."""
        gradients[:] = gradients.mean(axis=0)

    def step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """See `LockStepAlgorithm.step`."""
        state.params -= self.job.lr.at(step) * gradients

    @property
    def step_work(self) -> float:
        """Two gradients a step."""
        return 2.0

    def messages(self, step: int) -> tuple[Message, ...]:
        """Two fields up, and two means down."""
        if self.job.workers == 1:
            return ()
        return tuple(
            Message(kind=kind, wire=Cast(32), after_step=step, needed_by=step + 1, in_turn=True)
            for kind in ("to_server", "from_server", "to_server", "from_server")
        )


def build(job: Job, knobs: dict[str, Any]) -> Extragradient:
    """No knobs: γ is the learning rate."""
    del knobs
    return Extragradient(job)


ALGORITHMS.add(
    "extragradient",
    AlgorithmKind(
        id="extragradient",
        summary="a trial step, then the step itself with the field found there; for games",
        build=build,
        source="Korpelevich 1976",
    ),
)
