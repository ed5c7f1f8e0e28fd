"""What an algorithm is to its driver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from windtunnel.arrays import Floats, Reals
from windtunnel.learning.job import Job
from windtunnel.learning.messages import Message
from windtunnel.learning.state import LearnerState
from windtunnel.learning.tasks.base import Task
from windtunnel.techniques.knobs import Knob


class LockStepAlgorithm(Protocol):
    """An algorithm whose order of events does not depend on the clock.

    In each local step the driver computes all workers' gradients, lets the algorithm exchange them, steps the inner
    optimizer, and lets the algorithm exchange parameters. `messages` must state what these exchanges send, from the
    number of the step alone, so that a target is timed without learning anything.
    """

    def start(self, initial: Reals) -> LearnerState:
        """State before the first step, from parameters of shape (params,)."""

    def before_step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """Exchange gradients, in place: what each worker steps on. Shape (workers, params)."""

    def step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """Step the inner optimizer on `gradients`, in place."""

    def after_step(self, state: LearnerState, step: int) -> None:
        """Exchange parameters, in place, at the end of a local step."""

    def messages(self, step: int) -> tuple[Message, ...]:
        """What is sent in a local step (counted from 0) or at its end."""

    def reported(self, state: LearnerState) -> Reals:
        """Parameters that are evaluated, shape (1, params): the anchor, or the mean of the workers."""


@runtime_checkable
class TakesOwnGradients(Protocol):
    """A `LockStepAlgorithm` whose gradients are not those of the workers' parameters at the start of the step."""

    def own_gradients(self, task: Task, state: LearnerState, step: int, out: Reals) -> Floats:
        """Ask the task for gradients wherever and as often as the algorithm does.

        Args:
            task: With as many workers as the state has rows.
            state: May be changed.
            step: Counted from 0.
            out: What `before_step` and `step` get, shape (workers, params).

        Returns:
            Batch loss of each worker, shape (workers,).
        """


def step_work_of(algorithm: Any) -> float:
    """Seconds of a local step over those of one gradient of one worker's batch.

    1 where an algorithm does not say so by its `step_work`: two where it takes two gradients, as extragradient does;
    late + 1 where a worker computes as many shards; less than 1 where it makes forwards alone.
    """
    return float(getattr(algorithm, "step_work", 1.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmKind:
    """An algorithm that a scenario can name."""

    id: str
    summary: str
    driver: Literal["lock-step", "arrivals"] = "lock-step"
    build: Callable[[Job, dict[str, Any]], Any]
    """(job, knobs) → a `LockStepAlgorithm`, or an `ArrivalAlgorithm` where `driver` is `arrivals`.

    Raises `BadInput` where parts do not go together (a compressor that is not linear through an all-reduce …)."""
    knobs: dict[str, Knob] = field(default_factory=dict)
    family: str = ""
    """Of the catalogue: low-comm, compression, fl-edge, fault-straggler; empty for the plain ones."""
    source: str = ""
    deviates: str = ""
    """Where public code deviates from the paper, and which knob chooses."""
