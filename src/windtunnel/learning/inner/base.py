"""Inner optimizers: how a worker steps on its own gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from windtunnel.arrays import Reals


class InnerOptimizer(Protocol):
    """A rule that changes rows of parameters in place. Rows are workers, and never mix."""

    @property
    def states(self) -> tuple[str, ...]:
        """Names of its states, each shaped like the parameters."""

    def step(self, params: Reals, gradients: Reals, state: dict[str, Reals], lr: float, step: int) -> None:
        """One step.

        Args:
            params: Shape (rows, params); changed in place.
            gradients: Of the same shape; may be overwritten.
            state: By name, of the same shape; changed in place.
            lr: Learning rate of this step.
            step: Counted from 0.
        """


@dataclass(frozen=True, slots=True)
class LearningRate:
    """Peak after a linear warm-up, then constant or a cosine to `final` of the peak at the last step."""

    peak: float
    warmup_steps: int = 0
    decay: str = "constant"
    final: float = 0.1
    steps: int = 1

    def at(self, step: int) -> float:
        """Learning rate of a step, counted from 0."""
        from math import cos, pi

        if step < self.warmup_steps:
            return self.peak * (step + 1) / self.warmup_steps
        if self.decay == "constant":
            return self.peak
        done = min(1.0, (step - self.warmup_steps) / max(1, self.steps - self.warmup_steps))
        if self.decay == "linear":
            return self.peak * (1.0 - (1.0 - self.final) * done)
        return self.peak * (self.final + (1.0 - self.final) * 0.5 * (1.0 + cos(pi * done)))
