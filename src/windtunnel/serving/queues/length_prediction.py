"""Predicted lengths of answers, with an error of a given size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from windtunnel.techniques.base import Knob

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.twin.request import Request

ERROR = Knob(
    0.0, 0.0, 10.0, "standard deviation of ln(predicted / true) of an answer's length; 0 is an oracle, large is blind"
)
_STREAM = 12


class Predictor:
    """Lognormal errors, one a request, whose median is the truth: a function of seed and request."""

    def __init__(self, error: float, seed: int) -> None:
        self.error, self.seed = error, seed
        self.known: dict[int, float] = {}

    def answer(self, q: Request) -> float:
        """Predicted tokens of an answer."""
        if not self.error:
            return float(q.output)
        if q.index not in self.known:
            z = np.random.default_rng((self.seed, _STREAM, q.index)).standard_normal()
            self.known[q.index] = q.output * float(np.exp(self.error * z))
        return self.known[q.index]
