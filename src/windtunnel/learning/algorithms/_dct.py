"""Chunks of a tensor as cosine coefficients, of which the largest travel: what DeMo sends of its momentum.

Source: Peng, Quesnelle and Kingma 2024, DeMo (arXiv 2411.19870), section 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Ints, Reals
from windtunnel.learning.tasks.base import Shapes


@dataclass(frozen=True, slots=True)
class DctTopK:
    """The `k` largest coefficients of every chunk of `chunk` × `chunk` entries; a `WireFormat`.

    A side that `chunk` does not divide has chunks of its largest divisor below it. Vectors have chunks of `chunk`
    entries; tensors of more than two dimensions are read as matrices of their first one.
    """

    chunk: int = 64
    k: int = 32
    value_bits: int = 32
    index_bits: int = 32

    def nbytes(self, shapes: Shapes) -> float:
        """Values and positions of what is sent of each chunk."""
        return sum(self._sent(shape) for shape in shapes) * (self.value_bits + self.index_bits) / 8.0

    def _sent(self, shape: tuple[int, ...]) -> int:
        (rows, high), (columns, wide) = self._sides(shape)
        return rows * columns * min(self.k, high * wide)

    def select(self, values: Reals, shape: tuple[int, ...]) -> tuple[Ints, Reals]:
        """Positions and coefficients that each row sends of a tensor.

        Args:
            values: Shape (rows, entries).
            shape: Of the tensor.

        Returns:
            Two arrays of shape (rows, chunks, k).
        """
        from scipy.fft import dctn

        (rows, high), (columns, wide) = self._sides(shape)
        blocks = values.reshape(len(values), rows, high, columns, wide).transpose(0, 1, 3, 2, 4)
        found = dctn(blocks, axes=(3, 4), norm="ortho").reshape(len(values), rows * columns, high * wide)
        k = min(self.k, high * wide)
        order = np.argsort(-np.abs(found), axis=2, kind="stable")[:, :, :k]
        positions = np.sort(order, axis=2)
        return positions, np.take_along_axis(found, positions, axis=2)

    def restore(self, coefficients: Reals, shape: tuple[int, ...]) -> Reals:
        """The tensors of dense coefficients, shape (rows, chunks, entries of a chunk) → (rows, entries)."""
        from scipy.fft import idctn

        (rows, high), (columns, wide) = self._sides(shape)
        blocks = coefficients.reshape(len(coefficients), rows, columns, high, wide)
        found = idctn(blocks, axes=(3, 4), norm="ortho").transpose(0, 1, 3, 2, 4)
        return np.asarray(found.reshape(len(coefficients), -1), coefficients.dtype)

    def dense(self, positions: Ints, kept: Reals, shape: tuple[int, ...]) -> Reals:
        """Coefficients with zeros where nothing was sent, shape (rows, chunks, entries of a chunk)."""
        (rows, high), (columns, wide) = self._sides(shape)
        out = np.zeros((len(kept), rows * columns, high * wide), kept.dtype)
        np.put_along_axis(out, positions, kept, axis=2)
        return out

    def encode(self, row: Reals, shapes: Shapes) -> bytes:
        """The message of one row of shape (entries,), tensor by tensor: values, then positions."""
        out, at = b"", 0
        kinds: dict[int, npt.DTypeLike] = {16: np.float16, 32: np.float32, 64: np.float64}
        index: Any = np.dtype(f"<u{self.index_bits // 8}")
        for shape in shapes:
            size = prod(shape)
            positions, kept = self.select(row[None, at : at + size], shape)
            out += kept.astype(kinds[self.value_bits]).tobytes() + positions.astype(index).tobytes()
            at += size
        return out

    def _sides(self, shape: tuple[int, ...]) -> tuple[tuple[int, int], tuple[int, int]]:
        """((chunks, entries of a chunk) along the rows, the same along the columns)."""
        if len(shape) < 2:
            size = prod(shape)
            wide = _divisor(size, self.chunk)
            return (1, 1), (size // wide, wide)
        first, rest = shape[0], prod(shape[1:])
        high, wide = _divisor(first, self.chunk), _divisor(rest, self.chunk)
        return (first // high, high), (rest // wide, wide)


def _divisor(size: int, most: int) -> int:
    """The largest divisor of a size up to `most`."""
    return next(d for d in range(min(size, most), 0, -1) if size % d == 0)
