"""DeMo's compressor: cosine transforms of chunks, of which the largest coefficients are sent."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats, Ints, Reals
from windtunnel.learning.compressors import COMPRESSORS, CompressorKind
from windtunnel.learning.compressors._bits import Array, Field
from windtunnel.learning.compressors._coded import Coded, Parts, position_bits
from windtunnel.learning.compressors.topk import largest
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks.base import Shapes, params_of
from windtunnel.techniques.knobs import Knob


@lru_cache(maxsize=256)
def cosines(size: int) -> Floats:
    """Orthonormal DCT-II of `size` entries, shape (size, size): coefficients are its product with a column."""
    k, n = np.arange(size)[:, None], np.arange(size)[None, :]
    out = np.cos(np.pi * (2 * n + 1) * k / (2 * size)) * np.sqrt(2.0 / size)
    out[0] /= np.sqrt(2.0)
    return np.asarray(out)


@dataclass(frozen=True, slots=True)
class Chunks:
    """How a tensor is cut: `down` × `across` chunks of `height` × `width` entries."""

    down: int
    height: int
    across: int
    width: int

    @property
    def count(self) -> int:
        """Chunks."""
        return self.down * self.across

    @property
    def size(self) -> int:
        """Entries of a chunk."""
        return self.height * self.width


@dataclass(frozen=True, slots=True)
class Dct(Coded):
    """Per chunk the k largest coefficients of the DCT, with their positions.

    A vector is cut along its length, a tensor of more dimensions along the first and all others together, each into
    parts of the largest divisor that is not above `chunk`.

    Source: Peng et al. 2024 (arXiv 2411.19870), section 3, and the authors' code for chunks.
    """

    k: int = 32
    """Coefficients of a chunk."""
    chunk: int = 64
    """Edge of a chunk, at most."""
    bits: int = 32
    """Of a value."""
    id: str = "dct"
    linear: bool = False
    unbiased: bool = False
    needs_feedback: bool = True

    def fields(self, shapes: Shapes) -> tuple[Field, ...]:
        """Values, then positions of each tensor."""
        sent = sum(k for (k,) in self.kept_shapes(shapes))
        return (Field(sent, self.bits, real=True), *self.position_fields(shapes))

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
        return tuple((min(self.k, chunks.size),) for chunks in map(self.chunks, shapes) for _ in range(chunks.count))

    def position_fields(self, shapes: Shapes) -> tuple[Field, ...]:
        """Positions inside chunks; each tensor has its own size of chunks."""
        return tuple(
            Field(chunks.count * min(self.k, chunks.size), position_bits(chunks.size))
            for chunks in map(self.chunks, shapes)
        )

    def select(self, values: Reals, shapes: Shapes, draws: Draws, workers: Ints, step: int) -> tuple[Reals, Parts]:
        """Largest coefficients, shape (rows, sent), and their positions in their chunks."""
        del draws, workers, step
        rows, kept, positions, at = len(values), [], [], 0
        for shape in shapes:
            size = prod(shape)
            coefficients = forward(values[:, at : at + size], self.chunks(shape))
            found = largest(coefficients, min(self.k, coefficients.shape[-1]))
            kept.append(np.take_along_axis(coefficients, found, axis=2).reshape(rows, -1))
            positions.append(found.reshape(rows, -1))
            at += size
        return np.concatenate(kept, axis=1), tuple(positions)

    def scatter(self, kept: Reals, positions: Parts, shapes: Shapes, draws: Draws, workers: Ints, step: int) -> Reals:
        """Inverse transforms of kept coefficients, shape (rows, entries)."""
        del draws, workers, step
        out, at, taken = np.empty((len(kept), params_of(shapes)), kept.dtype), 0, 0
        for shape, where in zip(shapes, positions, strict=True):
            chunks, size = self.chunks(shape), prod(shape)
            coefficients = np.zeros((len(kept), chunks.count, chunks.size), kept.dtype)
            k = min(self.k, chunks.size)
            values = kept[:, taken : taken + chunks.count * k].reshape(len(kept), chunks.count, k)
            np.put_along_axis(coefficients, where.astype(np.int64).reshape(values.shape), values, axis=2)
            out[:, at : at + size] = inverse(coefficients, chunks)
            at, taken = at + size, taken + chunks.count * k
        return out

    def chunks(self, shape: tuple[int, ...]) -> Chunks:
        """How a tensor is cut."""
        rows, columns = (1, prod(shape)) if len(shape) < 2 else (shape[0], prod(shape[1:]))
        height, width = _divisor(rows, self.chunk), _divisor(columns, self.chunk)
        return Chunks(rows // height, height, columns // width, width)


def forward(values: Reals, chunks: Chunks) -> Reals:
    """Coefficients of one tensor's chunks, shape (rows, chunks, entries of a chunk), from (rows, entries)."""
    c = chunks
    cut = values.reshape(len(values), c.down, c.height, c.across, c.width).swapaxes(2, 3)
    down, across = cosines(c.height).astype(values.dtype), cosines(c.width).astype(values.dtype)
    return np.asarray(down @ np.ascontiguousarray(cut) @ across.T).reshape(len(values), c.count, c.size)


def inverse(coefficients: Reals, chunks: Chunks) -> Reals:
    """One tensor from its chunks' coefficients, shape (rows, entries)."""
    c = chunks
    down, across = cosines(c.height).astype(coefficients.dtype), cosines(c.width).astype(coefficients.dtype)
    cut = coefficients.reshape(len(coefficients), c.down, c.across, c.height, c.width)
    return np.asarray(down.T @ cut @ across).swapaxes(2, 3).reshape(len(coefficients), -1)


def _divisor(number: int, limit: int) -> int:
    """Largest divisor of a number that is not above a limit."""
    candidates: Array = np.arange(1, min(number, limit) + 1)
    return int(candidates[number % candidates == 0].max())


COMPRESSORS.add(
    "dct",
    CompressorKind(
        id="dct",
        summary="largest coefficients of chunks' cosine transforms",
        build=lambda knobs: Dct(**knobs),
        knobs={
            "k": Knob(32, 1, 10**6, "coefficients of a chunk"),
            "chunk": Knob(64, 1, 4096, "edge of a chunk, at most"),
            "bits": Knob(32, choices=(16, 32, 64), doc="bits of a value"),
        },
        source="Peng et al. 2024 (arXiv 2411.19870), section 3",
    ),
)
