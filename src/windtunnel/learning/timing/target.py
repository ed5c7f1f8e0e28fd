"""The target: what a worker's step takes and needs, and the links between workers, whatever is learned.

A worker is one whole copy of the target's cluster. Its step is a forward and a backward, layer by layer, and an update.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import isqrt

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.learning.drivers.pace import DrawnPace, lognormal_factors
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks.base import Shapes, params_of
from windtunnel.learning.timing.links import Link

FORWARD_SHARE = 1.0 / 3.0
"""Of a step whose parts nobody states: a backward has twice the products of a forward."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer: parts of a fragment, and of messages that leave during a backward, are layers."""

    shapes: Shapes
    """Of its tensors."""
    forward_share: float
    """Of a step's seconds; the shares of all layers, forward and backward, sum to at most 1, the rest is the update."""
    backward_share: float


@dataclass(frozen=True, kw_only=True)
class Target:
    """What workers train and on what, as far as the clock needs it."""

    step_s: float
    """Seconds of one local step of a typical worker, without messages to other workers."""
    layers: tuple[Layer, ...]
    """From the input to the output."""
    link: Link | None = None
    """None: messages take no time."""
    speeds: Speeds | None = None
    """None: all workers are alike."""
    step_watts: float = 0.0
    """Of one worker while it computes."""
    idle_watts: float = 0.0
    """Of one worker while it waits."""
    price_per_hour: float | None = None
    """Of one worker, US dollars; None: nobody says."""
    source: str = "stated"
    """Where seconds come from: `stated` or `simulated`."""

    @cached_property
    def shapes(self) -> Shapes:
        """Tensors of all layers, from the input to the output."""
        return tuple(shape for layer in self.layers for shape in layer.shapes)

    @cached_property
    def parameters(self) -> int:
        """Entries of all tensors."""
        return params_of(self.shapes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """How workers differ in speed."""

    factors: tuple[float, ...] = ()
    """Seconds of a step of each worker over the typical one's, repeated where workers are more."""
    lognormal: float = 0.0
    """Standard deviation of the logarithm of workers' seconds, drawn once a worker."""
    jitter: float = 0.0
    """Standard deviation of the logarithm of a worker's seconds, drawn anew each round."""
    exponential: bool = False
    """Each round of a worker takes an exponential time with its mean."""


def stated_layers(parameters: float, layers: int, forward_share: float = FORWARD_SHARE) -> tuple[Layer, ...]:
    """Equal layers of a target of which only its size is known.

    A layer has the four matrices of a transformer's (3h × h, h × h, 4h × h, h × 4h, with 12·h² entries) and a vector
    of what is left over, so that compressors of matrices see matrices and the sum is exact.

    Args:
        parameters: Entries of all layers together.
        layers: How many there are.
        forward_share: Seconds of the forward over those of the step; the rest is the backward.
    """
    whole = round(parameters)
    sizes = [whole // layers + (1 if i < whole % layers else 0) for i in range(layers)]
    return tuple(
        Layer(
            shapes=_matrices(size),
            forward_share=forward_share / layers,
            backward_share=(1.0 - forward_share) / layers,
        )
        for size in sizes
    )


def _matrices(size: int) -> Shapes:
    h = isqrt(size // 12)
    if h < 2:
        return ((size,),) if size else ()
    left = size - 12 * h * h
    return ((3 * h, h), (h, h), (4 * h, h), (h, 4 * h), *(((left,),) if left else ()))


class DrawnSpeeds:
    """Seconds of workers' steps over the typical one's, the same as those of the arrival-driven driver."""

    def __init__(self, speeds: Speeds | None, workers: int, seed: int, samples: Floats | None = None) -> None:
        """Speeds of `workers` workers; None: all alike. Each draw depends on (seed, worker, round) alone.

        `samples`: of each worker, shape (workers,), where slow workers are those with most data.
        """
        speeds = speeds or Speeds()
        draws = Draws(seed)
        stated = speeds.factors or (1.0,)
        factors = np.array([stated[i % len(stated)] for i in range(workers)])
        if speeds.lognormal:
            factors = factors * lognormal_factors(workers, speeds.lognormal, draws, samples)
        self.factors: Floats = factors
        """Of each worker in a typical round, shape (workers,)."""
        self.by_round = bool(speeds.jitter) or speeds.exponential
        """Whether a worker's seconds are drawn anew each round."""
        self._pace = DrawnPace(1.0, factors, draws, speeds.jitter, speeds.exponential)

    @property
    def differ(self) -> bool:
        """Whether workers are unlike, or rounds are."""
        return self.by_round or bool(np.any(self.factors != self.factors[0]))

    @property
    def slowest(self) -> Floats:
        """Of the worker that all others wait for, shape (1,)."""
        return np.array([self.factors.max()])

    def of_round(self, at: int) -> Floats:
        """Of each worker in a round, shape (workers,)."""
        if not self.by_round:
            return self.factors
        return np.array([self._pace.round_s(i, at, 1, 0.0) for i in range(len(self.factors))])
