"""What techniques save of an iteration: a surface over tokens and attention, from the engine at its knots.

    T = (everything in a row) - saved(n, prompt attention, decode attention)

The saving over the seconds of linear layers is even between knots. At a fixed batch a run of decode steps therefore has
a closed form up to the next knot of decode attention, where the request loop begins another run.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
RATIOS = (0.0, 0.1, 0.2, 0.35, 0.5, 0.7, 0.95, 1.3, 1.8, 2.6, 5.0)
"""Attention over linear layers at the knots; beyond the last nothing more is saved."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """Seconds saved, as shares of the seconds of linear layers. Negative: the technique costs more than it saves."""

    tokens: Floats
    """(K,) knots."""
    linear_s: Floats
    """(K,) of linear layers there."""
    share: Floats
    """(K, U, V): over `RATIOS` of prompt attention and of decode attention."""
    prompt_s: Floats
    """(K,) what an iteration with prompts takes longer because its launches are more, issued one by one."""
    known: dict[int, tuple[float, Floats]] = field(default_factory=dict, compare=False)

    def _at(self, tokens: int) -> tuple[float, Floats]:
        """Seconds of linear layers, and (U, V) seconds saved."""
        found = self.known.get(tokens)
        if found is None:
            linear = float(np.interp(tokens, self.tokens, self.linear_s))
            k = int(np.clip(np.searchsorted(self.tokens, tokens, side="right") - 1, 0, max(len(self.tokens) - 2, 0)))
            j = min(k + 1, len(self.tokens) - 1)
            span = self.tokens[j] - self.tokens[k]
            w = float(np.clip((tokens - self.tokens[k]) / span, 0.0, 1.0)) if span > 0 else 0.0
            found = self.known[tokens] = linear, ((1.0 - w) * self.share[k] + w * self.share[j]) * linear
        return found

    def saved(self, tokens: float, prompt_s: float, decode_s: float) -> float:
        """Seconds saved in one iteration.

        Args:
            tokens: computed in it.
            prompt_s: attention of prompts, all layers.
            decode_s: attention of decoding sequences, all layers.
        """
        linear, seconds = self._at(round(tokens))
        i, a = _between(RATIOS, prompt_s / linear)
        j, b = _between(RATIOS, decode_s / linear)
        low = (1.0 - b) * seconds[i, j] + b * seconds[i, j + 1]
        if prompt_s <= 0.0:
            return float(low)
        high = (1.0 - b) * seconds[i + 1, j] + b * seconds[i + 1, j + 1]
        return float((1.0 - a) * low + a * high) - float(np.interp(tokens, self.tokens, self.prompt_s))

    def run(self, tokens: int, decode_s: float, more_s: float) -> tuple[float, float, int]:
        """Of decode steps of one batch: seconds saved in the first, what each saves more, steps until that changes.

        Args:
            tokens: of the batch.
            decode_s: attention of the first step.
            more_s: what each step's attention takes more than the one before.
        """
        linear, seconds = self._at(tokens)
        ratio = decode_s / linear
        if ratio >= RATIOS[-1] or more_s <= 0.0:
            return self.saved(tokens, 0.0, decode_s), 0.0, 1 << 30
        j, b = _between(RATIOS, ratio)
        low, high = float(seconds[0, j]), float(seconds[0, j + 1])
        slope = (high - low) / ((RATIOS[j + 1] - RATIOS[j]) * linear)
        steps = int((RATIOS[j + 1] * linear - decode_s) / more_s) + 1
        return low + b * (high - low), slope * more_s, max(steps, 1)


def _between(knots: Sequence[float], value: float) -> tuple[int, float]:
    """The knot below and how far it is to the next, 0 to 1."""
    j = min(bisect_right(knots, value) - 1, len(knots) - 2)
    return j, min((value - knots[j]) / (knots[j + 1] - knots[j]), 1.0)

