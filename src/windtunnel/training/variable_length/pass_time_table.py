"""Seconds of a micro-batch's passes by how many ranks share it and how long its documents are.

Linear work grows with tokens, attention with the sum of squared lengths: at one number of tokens everything follows
from their ratio, the mean length that a token sees. Passes are priced at a few of these and lie on lines between them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats
from windtunnel.training.stage_costs.stage_costs import StageCosts

SHORTEST = 128.0
STEP = 4.0
"""Factor between two lengths that are priced."""


@dataclass(frozen=True, slots=True)
class PassTable:
    """Passes of micro-batches with `tokens` tokens a rank."""

    tokens: float
    stages: int
    lengths: dict[int, Floats]
    """Ranks of a sequence → lengths priced, ascending."""
    seconds: dict[int, Floats]
    """Ranks of a sequence → (lengths, 3, K) seconds of F, B, W of each virtual stage."""
    flop: Floats
    """(2, 3): length, hardware FLOPs and model FLOPs a token, at two lengths; both lie on a line."""

    def of(self, width: int, length: npt.ArrayLike, tokens: npt.ArrayLike | None = None) -> Floats:
        """(…, 3, K) seconds of micro-batches.

        Args:
            width: ranks that share each.
            length: sum of squared document lengths over tokens.
            tokens: of a rank; absent: as many as the table has.
        """
        x, known = np.asarray(length, np.float64), self.lengths[width]
        values = self.seconds[width]
        if len(known) == 1:
            out = np.broadcast_to(values[0], (*x.shape, *values.shape[1:]))
        else:
            i = np.clip(np.searchsorted(known, x, side="right") - 1, 0, len(known) - 2)
            part = ((x - known[i]) / (known[i + 1] - known[i]))[..., None, None]
            out = np.maximum(values[i] + part * (values[i + 1] - values[i]), 0.0)
        if tokens is None:
            return out
        return np.asarray(out * (np.asarray(tokens, np.float64) / self.tokens)[..., None, None])

    def busy_s(self, width: int, length: npt.ArrayLike, tokens: npt.ArrayLike | None = None) -> Floats:
        """(…): seconds that a micro-batch keeps a stage busy, on average over stages."""
        return np.asarray(self.of(width, length, tokens).sum(axis=(-2, -1)) / self.stages)

    def linear_s(self) -> float:
        """The same without attention: one rank's, where documents have no length."""
        width = min(self.lengths)
        known, values = self.lengths[width], self.seconds[width].sum(axis=(1, 2)) / self.stages
        if len(known) == 1:
            return float(values[0])
        slope = (values[1] - values[0]) / (known[1] - known[0])
        return float(values[0] - slope * known[0])

    def flop_per_token(self, length: float) -> tuple[float, float]:
        """Hardware and model FLOPs of a token."""
        (a, *low), (b, *high) = self.flop.tolist()
        part = (length - a) / (b - a) if b > a else 0.0
        hardware, model = (x + part * (y - x) for x, y in zip(low, high, strict=True))
        return hardware, model


def priced_lengths(longest: float) -> list[float]:
    """Lengths to price up to the longest, ascending."""
    out = [longest]
    while out[-1] / STEP >= SHORTEST:
        out.append(out[-1] / STEP)
    return sorted({*out, min(SHORTEST, longest)})


def priced(
    widths: list[int], tokens: float, stages: int, longest: float, price: Callable[[int, float], StageCosts]
) -> PassTable:
    """The table of some widths.

    Args:
        widths: ranks that share a sequence.
        tokens: of one rank in a micro-batch.
        stages: of the pipeline.
        longest: document.
        price: parts of a micro-batch by width and length.
    """
    lengths: dict[int, Floats] = {}
    seconds: dict[int, Floats] = {}
    flop: list[tuple[float, float, float]] = []
    for width in widths:
        known = priced_lengths(min(longest, tokens * width))
        parts = [price(width, length) for length in known]
        lengths[width], seconds[width] = np.array(known), np.stack([x.seconds for x in parts])
        if not flop or width == max(widths):
            ends = [
                (known[i], parts[i].hardware_flop / (tokens * width), parts[i].graph.model_flop_per_token)
                for i in (0, -1)
            ]
            flop = ends
    return PassTable(tokens, stages, lengths, seconds, np.array(flop))
