"""Tables of the seconds that a micro-batch's passes take, by the ranks that share it and the length of its documents.

The work of linear layers grows with the tokens, that of attention with the sum of squared document lengths. At a fixed
number of tokens, the ratio of that sum to the tokens decides: the length of the document that a token lies in, averaged
over tokens. Passes are priced at a few such lengths and interpolated linearly between them.
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
"""Factor between two neighbouring lengths at which passes are priced."""


@dataclass(frozen=True, slots=True)
class PassTable:
    """Seconds and FLOPs of the passes of micro-batches that have `tokens` tokens on each rank."""

    tokens: float
    stages: int
    lengths: dict[int, Floats]
    """Ranks that share a sequence → lengths in tokens at which passes are priced, ascending."""
    seconds: dict[int, Floats]
    """Ranks that share a sequence → (lengths, 3, K) seconds of F, B, W on each virtual stage."""
    flop: Floats
    """(2, 3) at two lengths: length in tokens, hardware and model FLOPs per token; FLOPs are linear in the length."""

    def of(self, width: int, length: npt.ArrayLike, tokens: npt.ArrayLike | None = None) -> Floats:
        """Seconds of F, B, W of micro-batches on each virtual stage, shape (…, 3, K).

        Args:
            width: Number of ranks that share a micro-batch.
            length: (…) sum of squared document lengths over tokens, in tokens.
            tokens: (…) tokens on each rank; absent: the table's `tokens`.
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
        """Seconds that a micro-batch keeps a pipeline stage busy, the mean over stages, shape (…)."""
        return np.asarray(self.of(width, length, tokens).sum(axis=(-2, -1)) / self.stages)

    def linear_s(self) -> float:
        """Seconds that a micro-batch without attention keeps a stage busy: extrapolated to documents of length 0."""
        width = min(self.lengths)
        known, values = self.lengths[width], self.seconds[width].sum(axis=(1, 2)) / self.stages
        if len(known) == 1:
            return float(values[0])
        slope = (values[1] - values[0]) / (known[1] - known[0])
        return float(values[0] - slope * known[0])

    def flop_per_token(self, length: float) -> tuple[float, float]:
        """Hardware FLOPs and model FLOPs per token, at a document length in tokens."""
        (a, *low), (b, *high) = self.flop.tolist()
        part = (length - a) / (b - a) if b > a else 0.0
        hardware, model = (x + part * (y - x) for x, y in zip(low, high, strict=True))
        return hardware, model


def priced_lengths(longest: float) -> list[float]:
    """Document lengths in tokens at which passes are priced: ascending, up to the longest."""
    out = [longest]
    while out[-1] / STEP >= SHORTEST:
        out.append(out[-1] / STEP)
    return sorted({*out, min(SHORTEST, longest)})


def priced(
    widths: list[int], tokens: float, stages: int, longest: float, price: Callable[[int, float], StageCosts]
) -> PassTable:
    """Price passes for every width and length.

    Args:
        widths: Numbers of ranks that may share a sequence.
        tokens: Tokens of one rank in a micro-batch.
        stages: Number of pipeline stages.
        longest: Length in tokens of the longest document.
        price: Prices the virtual stages of a micro-batch, from its width and its document length in tokens.
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
