"""Top-k: the entries of largest magnitude and their positions, of the whole vector or of every chunk of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Ints, Reals
from windtunnel.learning.compressors import COMPRESSORS, CompressorKind
from windtunnel.learning.compressors._bits import Array, Field
from windtunnel.learning.compressors._coded import Coded, Parts, position_bits
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks.base import Shapes, params_of
from windtunnel.techniques.knobs import Knob


@dataclass(frozen=True, slots=True)
class TopK(Coded):
    """Largest magnitudes, each with its position; the rest is zero to receivers.

    The bytes are k·(`bits` + bits of a position): ⌈log₂ chunk⌉ in a chunk, ⌈log₂ d⌉ in the whole vector.

    Source: Aji and Heafield 2017 (arXiv 1704.05021); by chunk: SparseLoCo (arXiv 2508.15706), section 3.
    """

    fraction: float = 0.01
    """Share of entries that are sent, of each chunk at least one."""
    chunk: int = 0
    """Entries of a chunk of the flat vector, the last may be shorter; 0: the whole vector is one."""
    bits: int = 32
    """Of a value."""
    id: str = "topk"
    linear: bool = False
    unbiased: bool = False
    needs_feedback: bool = True

    def fields(self, shapes: Shapes) -> tuple[Field, ...]:
        """Values, then positions."""
        return (Field(self.sent(shapes), self.bits, real=True), *self.position_fields(shapes))

    def parts(self, values: Reals, shapes: Shapes, draws: Draws, workers: Ints, step: int) -> Parts:
        """See `Coded.parts`."""
        kept, positions = self.select(values, shapes, draws, workers, step)
        return (kept.astype(f"f{self.bits // 8}"), *positions)

    def joined(
        self, parts: Parts, shapes: Shapes, dtype: npt.DTypeLike, draws: Draws, workers: Ints, step: int
    ) -> Reals:
        """See `Coded.joined`."""
        return self.scatter(parts[0].astype(dtype), parts[1:], shapes, draws, workers, step)

    # -- a `Sparsifier` of `chain`

    def kept_shapes(self, shapes: Shapes) -> Shapes:
        """One vector a chunk."""
        return tuple((k,) for k, _ in self._chunks(shapes))

    def position_fields(self, shapes: Shapes) -> tuple[Field, ...]:
        """Positions inside their chunks, in the bits that a whole chunk needs."""
        return (Field(self.sent(shapes), position_bits(self._chunk(shapes))),)

    def select(self, values: Reals, shapes: Shapes, draws: Draws, workers: Ints, step: int) -> tuple[Reals, Parts]:
        """Values of the largest entries, shape (rows, k), and their positions, ascending in each chunk."""
        del draws, workers, step
        rows, chunk = len(values), self._chunk(shapes)
        whole, k = values.shape[1] // chunk, self._of(chunk)
        body = values[:, : whole * chunk].reshape(rows, whole, chunk)
        positions = largest(body, k).reshape(rows, whole * k)
        kept = np.take_along_axis(body, positions.reshape(rows, whole, k), axis=2).reshape(rows, whole * k)
        rest = values[:, whole * chunk :]
        if rest.shape[1]:
            last = largest(rest, self._of(rest.shape[1]))
            kept = np.concatenate([kept, np.take_along_axis(rest, last, axis=1)], axis=1)
            positions = np.concatenate([positions, last], axis=1)
        return kept, (positions,)

    def scatter(self, kept: Reals, positions: Parts, shapes: Shapes, draws: Draws, workers: Ints, step: int) -> Reals:
        """Kept values at their places in rows of zeros, shape (rows, entries)."""
        del draws, workers, step
        out = np.zeros((len(kept), params_of(shapes)), kept.dtype)
        chunks = self._chunks(shapes)
        starts = np.repeat(np.arange(len(chunks)) * self._chunk(shapes), [k for k, _ in chunks])
        np.put_along_axis(out, positions[0].astype(np.int64) + starts, kept, axis=1)
        return out

    def sent(self, shapes: Shapes) -> int:
        """Entries of a message."""
        return sum(k for k, _ in self._chunks(shapes))

    def _chunk(self, shapes: Shapes) -> int:
        total = params_of(shapes)
        return min(self.chunk, total) if self.chunk else total

    def _of(self, entries: int) -> int:
        return max(1, min(entries, round(self.fraction * entries)))

    def _chunks(self, shapes: Shapes) -> list[tuple[int, int]]:
        """Sent and all entries of each chunk."""
        whole, rest = divmod(params_of(shapes), self._chunk(shapes))
        sizes = [self._chunk(shapes)] * whole + ([rest] if rest else [])
        return [(self._of(size), size) for size in sizes]


def largest(values: Array, k: int) -> Array:
    """Positions of the k largest magnitudes along the last axis, ascending."""
    entries = values.shape[-1]
    if k >= entries:
        return np.broadcast_to(np.arange(entries), values.shape).copy()
    found = np.argpartition(np.abs(values), entries - k, axis=-1)[..., entries - k :]
    return np.sort(found, axis=-1)


COMPRESSORS.add(
    "topk",
    CompressorKind(
        id="topk",
        summary="the entries of largest magnitude, with their positions",
        build=lambda knobs: TopK(**knobs),
        knobs={
            "fraction": Knob(0.01, 1e-9, 1.0, "share of entries that are sent"),
            "chunk": Knob(0, 0, 10**9, "entries of a chunk that is searched by itself; 0: the whole vector"),
            "bits": Knob(32, choices=(16, 32, 64), doc="bits of a value"),
        },
        source="Aji and Heafield 2017 (arXiv 1704.05021)",
    ),
)
