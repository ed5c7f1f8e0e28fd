"""Delayed Nesterov: arrivals step the anchor one by one, and the momentum takes them in together, every N of them.

Equal pseudo-gradients one after the other, as asynchronous workers send them, are each amplified by the momentum that
the ones before have built. Here the momentum changes once for N arrivals.

Source: Liu et al. 2024 (arXiv 2401.09135), algorithm 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from windtunnel.arrays import Reals
from windtunnel.learning.outer import OUTER, OuterKind
from windtunnel.techniques.knobs import Knob


@dataclass(frozen=True, slots=True)
class DelayedNesterov:
    """Δ += g; every N: b ← βb + Δ/N, a ← a − ν((1 − cN + c)βb + g/N), Δ ← 0; else a ← a − ν(cβb + g/N)."""

    lr: float = 0.7
    momentum: float = 0.9
    every: int = 4
    """N: arrivals between changes of the momentum."""
    spread: float = 0.0
    """c: share of the momentum's step that each arrival makes; 0: all of it with the N-th."""

    @property
    def states(self) -> tuple[str, ...]:
        """The momentum, and the sum of what has arrived since it changed."""
        return ("momentum", "gathered")

    def step(self, anchor: Reals, difference: Reals, state: dict[str, Reals], round_number: int) -> None:
        """See `OuterOptimizer.step`."""
        one = anchor.dtype.type
        b, gathered, n = state["momentum"], state["gathered"], self.every
        gathered += difference
        share = self.spread
        if (round_number + 1) % n == 0:
            b *= one(self.momentum)
            b += gathered * one(1.0 / n)
            gathered[:] = 0.0
            share = 1.0 - self.spread * n + self.spread
        anchor -= (b * one(share * self.momentum) + difference * one(1.0 / n)) * one(self.lr)


def build(knobs: dict[str, Any]) -> DelayedNesterov:
    """See `DelayedNesterov`."""
    return DelayedNesterov(**knobs)


OUTER.add(
    "delayed_nesterov",
    OuterKind(
        id="delayed_nesterov",
        summary="Nesterov's momentum that takes arrivals in every N of them",
        build=build,
        knobs={
            "lr": Knob(0.7, 0.0, 10.0, "outer learning rate"),
            "momentum": Knob(0.9, 0.0, 0.999999, "outer momentum"),
            "every": Knob(4, 1, 100_000, "N: arrivals between changes of the momentum"),
            "spread": Knob(0.0, 0.0, 1.0, "c: share of the momentum's step that each arrival makes"),
        },
        source="Liu et al. 2024 (arXiv 2401.09135), algorithm 3",
    ),
)
