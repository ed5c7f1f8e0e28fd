"""What techniques save of an iteration: a surface over tokens and attention, from the engine at its knots.

    T = (everything in a row) - saved(n, prompt attention, decode attention)

The saving over the seconds of linear layers is even between knots. At a fixed batch a run of decode steps therefore has
a closed form up to the next knot of decode attention, where the request loop begins another run.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from windtunnel.arrays import Floats

Point = tuple[float, float, float]
RATIOS = (0.0, 0.1, 0.2, 0.35, 0.5, 0.7, 0.95, 1.3, 1.8, 2.6, 5.0)
"""Attention over linear layers at the knots; beyond the last nothing more is saved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """Seconds saved, as shares of the seconds of linear layers. Negative: the technique costs more than it saves."""

    tokens: Floats
    """(K,) knots."""
    linear_s: Floats
    """(K,) seconds of linear layers at the knots."""
    price: Callable[[list[Point]], Floats]
    """(P,) seconds saved at points of tokens, prompt attention and decode attention (seconds of whole iterations)."""
    host_s: Floats
    """(K,) seconds that the host needs to issue launches of prompts one by one; an iteration takes at least that."""
    share: Floats
    """(K, U, V) over `RATIOS` of prompt attention and of decode attention; NaN where nobody has asked yet."""
    known: dict[tuple[int, int, int], float] = field(default_factory=dict, compare=False)
    scales: dict[float, tuple[float, float]] = field(default_factory=dict, compare=False)

    @staticmethod
    def of(tokens: Floats, linear_s: Floats, host_s: Floats, price: Callable[[list[Point]], Floats]) -> Overlap:
        """A surface whose knots are priced when they are first needed."""
        return Overlap(
            tokens=tokens,
            linear_s=linear_s,
            price=price,
            host_s=host_s,
            share=np.full((len(tokens), len(RATIOS), len(RATIOS)), np.nan),
        )

    def scale(self, tokens: float) -> tuple[float, float]:
        """Return seconds of linear layers, and of the host's launches of prompts."""
        found = self.scales.get(tokens)
        if found is None:
            both = (float(np.interp(tokens, self.tokens, x)) for x in (self.linear_s, self.host_s))
            found = self.scales[tokens] = next(both), next(both)
        return found

    def fill(self, cells: Iterable[tuple[int, int, int]]) -> None:
        """Price knots that are not known yet, in one engine call."""
        missing = [c for c in dict.fromkeys(cells) if np.isnan(self.share[c])]
        if missing:
            at = self.linear_s
            points = [(float(self.tokens[k]), RATIOS[i] * at[k], RATIOS[j] * at[k]) for k, i, j in missing]
            for (k, i, j), seconds in zip(missing, self.price(points), strict=True):
                self.share[k, i, j] = seconds / at[k]

    def _corners(self, tokens: int, cells: Sequence[tuple[int, int]]) -> list[float]:
        """Return seconds saved at knots of attention."""
        known = self.known
        try:
            return [known[tokens, i, j] for i, j in cells]
        except KeyError:
            k = int(np.clip(np.searchsorted(self.tokens, tokens, side="right") - 1, 0, max(len(self.tokens) - 2, 0)))
            n = min(k + 1, len(self.tokens) - 1)
            span = self.tokens[n] - self.tokens[k]
            w = float(np.clip((tokens - self.tokens[k]) / span, 0.0, 1.0)) if span > 0 else 0.0
            self.fill((m, i, j) for m in (k, n) for i, j in cells)
            for i, j in cells:
                share = (1.0 - w) * self.share[k, i, j] + w * self.share[n, i, j]
                self.known[tokens, i, j] = float(share) * self.scale(tokens)[0]
        return [self.known[tokens, i, j] for i, j in cells]

    def saved(self, tokens: float, prompt_s: float, decode_s: float) -> float:
        """Return the seconds saved in one iteration.

        Args:
            tokens: tokens computed in the iteration.
            prompt_s: seconds of prompt attention, all layers.
            decode_s: seconds of decode attention, all layers.
        """
        linear, issued = self.scale(tokens)
        i, a = _between(RATIOS, prompt_s / linear)
        j, b = _between(RATIOS, decode_s / linear)
        if prompt_s <= 0.0:
            low, high = self._corners(round(tokens), ((0, j), (0, j + 1)))
            return (1.0 - b) * low + b * high
        four = self._corners(round(tokens), ((i, j), (i, j + 1), (i + 1, j), (i + 1, j + 1)))
        less, more = ((1.0 - b) * low + b * high for low, high in (four[:2], four[2:]))
        return min((1.0 - a) * less + a * more, linear + prompt_s + decode_s - issued)

    def run(self, tokens: int, decode_s: float, more_s: float) -> tuple[float, float, int]:
        """Follow decode steps of one batch: seconds saved in the first, what each saves more, steps until that changes.

        Args:
            tokens: tokens of the batch.
            decode_s: seconds of attention of the first step.
            more_s: seconds that each step's attention takes more than the one before.
        """
        linear = self.scale(tokens)[0]
        ratio = decode_s / linear
        if ratio >= RATIOS[-1] or more_s <= 0.0:
            return self.saved(tokens, 0.0, decode_s), 0.0, 1 << 30
        j, b = _between(RATIOS, ratio)
        low, high = self._corners(tokens, ((0, j), (0, j + 1)))
        slope = (high - low) / ((RATIOS[j + 1] - RATIOS[j]) * linear)
        steps = int((RATIOS[j + 1] * linear - decode_s) / more_s) + 1
        return low + b * (high - low), slope * more_s, max(steps, 1)


def _between(knots: Sequence[float], value: float) -> tuple[int, float]:
    """The knot below and how far it is to the next, 0 to 1."""
    j = min(bisect_right(knots, value) - 1, len(knots) - 2)
    return j, min((value - knots[j]) / (knots[j + 1] - knots[j]), 1.0)
