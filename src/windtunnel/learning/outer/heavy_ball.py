"""Heavy-ball momentum over pseudo-gradients, with a penalty of the gap and a clip where asked (SlowMo, CO2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Reals
from windtunnel.learning.outer import OUTER, OuterKind
from windtunnel.techniques.knobs import Knob


@dataclass(frozen=True, slots=True)
class HeavyBall:
    """b ← μb + D/Λ; b is cut to ±clip; a ← a − lr·b."""

    lr: float = 0.7
    momentum: float = 0.9
    gap_penalty: float = 1.0
    """Λ: what a pseudo-gradient is divided by."""
    clip: float = 0.0
    """Largest magnitude of an entry of the momentum; 0: none."""

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
        b += difference if self.gap_penalty == 1.0 else difference / one(self.gap_penalty)
        if self.clip:
            np.clip(b, -self.clip, self.clip, out=b)
        anchor -= b * one(self.lr)


OUTER.add(
    "heavy_ball",
    OuterKind(
        id="heavy_ball",
        summary="heavy-ball momentum over pseudo-gradients",
        build=lambda knobs: HeavyBall(**knobs),
        knobs={
            "lr": Knob(0.7, 0.0, 10.0, "outer learning rate"),
            "momentum": Knob(0.9, 0.0, 0.999999, "outer momentum"),
            "gap_penalty": Knob(1.0, 1e-9, 1e9, "what a pseudo-gradient is divided by"),
            "clip": Knob(0.0, 0.0, 1e9, "largest magnitude of an entry of the momentum; 0: none"),
        },
        source="Wang et al. 2020, SlowMo (arXiv 1910.00643), algorithm 1",
    ),
)
