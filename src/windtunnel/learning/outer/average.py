"""Plain averaging: the anchor becomes the mean of the workers, or goes `lr` of the way (FedAvg, local SGD)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Reals
from windtunnel.learning.outer import OUTER, OuterKind
from windtunnel.techniques.knobs import Knob


@dataclass(frozen=True, slots=True)
class Average:
    """a ← a − lr·D; lr 1 is the mean of the workers."""

    lr: float = 1.0

    @property
    def states(self) -> tuple[str, ...]:
        """None."""
        return ()

    def step(self, anchor: Reals, difference: Reals, state: dict[str, Reals], round_number: int) -> None:
        """See `OuterOptimizer.step`."""
        del state, round_number
        anchor -= np.multiply(difference, anchor.dtype.type(self.lr))


OUTER.add(
    "average",
    OuterKind(
        id="average",
        summary="the mean of the workers",
        build=lambda knobs: Average(**knobs),
        knobs={"lr": Knob(1.0, 0.0, 10.0, "share of the way to the mean")},
        source="McMahan et al. 2017, algorithm 1",
    ),
)
