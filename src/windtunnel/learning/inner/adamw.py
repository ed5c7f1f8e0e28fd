"""AdamW: Loshchilov and Hutter 2019, Decoupled weight decay regularization, algorithm 2."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from windtunnel.arrays import Reals
from windtunnel.learning.inner import INNER, InnerKind
from windtunnel.techniques.knobs import Knob


@dataclass(frozen=True, slots=True)
class AdamW:
    """m ← β₁m + (1 − β₁)g; v ← β₂v + (1 − β₂)g²; x ← x − lr·(m̂/(√v̂ + ε) + λx)."""

    beta1: float = 0.9
    beta2: float = 0.99
    eps: float = 1e-8
    weight_decay: float = 0.0

    @property
    def states(self) -> tuple[str, ...]:
        """First and second moment."""
        return ("m", "v")

    def step(self, params: Reals, gradients: Reals, state: dict[str, Reals], lr: float, step: int) -> None:
        """One step in place; see `InnerOptimizer.step`."""
        m, v = state["m"], state["v"]
        one = params.dtype.type
        if self.weight_decay:
            params *= one(1.0 - lr * self.weight_decay)
        m *= one(self.beta1)
        m += np.multiply(gradients, one(1.0 - self.beta1))
        np.multiply(gradients, gradients, out=gradients)
        gradients *= one(1.0 - self.beta2)
        v *= one(self.beta2)
        v += gradients
        root = np.sqrt(v, out=gradients)
        root /= one(sqrt(1.0 - self.beta2 ** (step + 1)))
        root += one(self.eps)
        np.divide(m, root, out=root)
        root *= one(lr / (1.0 - self.beta1 ** (step + 1)))
        params -= root


INNER.add(
    "adamw",
    InnerKind(
        id="adamw",
        summary="Adam with decoupled weight decay",
        build=lambda knobs: AdamW(**knobs),
        knobs={
            "beta1": Knob(0.9, 0.0, 0.999999, "decay of the first moment"),
            "beta2": Knob(0.99, 0.0, 0.999999, "decay of the second moment"),
            "eps": Knob(1e-8, 0.0, 1.0, "added to the root of the second moment"),
            "weight_decay": Knob(0.0, 0.0, 10.0, "decoupled weight decay"),
        },
        lr=2e-3,
        source="Loshchilov and Hutter 2019, algorithm 2",
    ),
)
