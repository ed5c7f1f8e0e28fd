"""What all algorithms of a comparison share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Ints
from windtunnel.learning.inner.base import InnerOptimizer, LearningRate
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks.base import Shapes


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What all algorithms of a comparison share; an algorithm reads it and never the task."""

    workers: int
    steps: int
    """Local steps of each worker."""
    shapes: Shapes
    """Tensors of the proxy's model."""
    inner: InnerOptimizer
    lr: LearningRate
    draws: Draws

    @property
    def everyone(self) -> Ints:
        """Numbers of all workers."""
        return np.arange(self.workers)
