"""Nesterov's momentum over pseudo-gradients: the outer optimizer of DiLoCo."""

from __future__ import annotations

from dataclasses import dataclass

from windtunnel.arrays import Reals
from windtunnel.learning.outer import OUTER, OuterKind
from windtunnel.techniques.knobs import Knob


@dataclass(frozen=True, slots=True)
class Nesterov:
    """b ← μb + D; a ← a − lr·(D + μb), the form of torch's SGD with `nesterov=True`."""

    lr: float = 0.7
    momentum: float = 0.9

    @property
    def states(self) -> tuple[str, ...]:
        """The momentum."""
        return ("momentum",)

    def step(self, anchor: Reals, difference: Reals, state: dict[str, Reals], round_number: int) -> None:
        """See `OuterOptimizer.step`."""
        del round_number
        one = anchor.dtype.type
        b = state["momentum"]
        b *= one(self.momentum)
        b += difference
        anchor -= (difference + b * one(self.momentum)) * one(self.lr)


OUTER.add(
    "nesterov",
    OuterKind(
        id="nesterov",
        summary="Nesterov's momentum over pseudo-gradients",
        build=lambda knobs: Nesterov(**knobs),
        knobs={
            "lr": Knob(0.7, 0.0, 10.0, "outer learning rate"),
            "momentum": Knob(0.9, 0.0, 0.999999, "outer momentum"),
        },
        source="Douillard et al. 2023 (arXiv 2311.08105), section 2.1",
    ),
)
