"""Stochastic gradient descent, with momentum where asked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Reals
from windtunnel.learning.inner import INNER, InnerKind
from windtunnel.techniques.knobs import Knob


@dataclass(frozen=True, slots=True)
class SGD:
    """x ← x − lr·g, or with momentum u ← βu + g, x ← x − lr·u (torch's form, Sutskever et al. 2013)."""

    momentum: float = 0.0
    weight_decay: float = 0.0

    @property
    def states(self) -> tuple[str, ...]:
        """The momentum, where there is one."""
        return ("m",) if self.momentum else ()

    def step(self, params: Reals, gradients: Reals, state: dict[str, Reals], lr: float, step: int) -> None:
        """One step in place; see `InnerOptimizer.step`."""
        del step
        if self.weight_decay:
            params *= 1.0 - lr * self.weight_decay
        rate = params.dtype.type(lr)
        if self.momentum:
            u = state["m"]
            u *= self.momentum
            u += gradients
            np.multiply(u, rate, out=gradients)
        else:
            gradients *= rate
        params -= gradients


INNER.add(
    "sgd",
    InnerKind(
        id="sgd",
        summary="stochastic gradient descent, with momentum where asked",
        build=lambda knobs: SGD(**knobs),
        knobs={
            "momentum": Knob(0.0, 0.0, 0.999999, "share of the last step that is kept"),
            "weight_decay": Knob(0.0, 0.0, 10.0, "decoupled weight decay"),
        },
        lr=0.1,
    ),
)
