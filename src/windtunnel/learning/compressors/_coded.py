"""What compressors with fields share: bytes, messages and what receivers get all follow from one list of fields."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import ceil, log2
from typing import Any

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Ints, Reals
from windtunnel.learning.compressors._bits import Array, Field, packed, unpacked
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks.base import Shapes, params_of

Parts = tuple[Array, ...]
"""Numbers of a message's fields, shape (rows, count) each."""


class Coded(ABC):
    """`Compressor` from `fields`, `parts` and `joined`; the bytes of a message are those of its fields."""

    __slots__ = ()

    @abstractmethod
    def fields(self, shapes: Shapes) -> tuple[Field, ...]:
        """Of one row's message."""

    @abstractmethod
    def parts(self, values: Reals, shapes: Shapes, draws: Draws, workers: Ints, step: int) -> Parts:
        """Numbers of each field, shape (rows, count) each, exactly as they travel."""

    @abstractmethod
    def joined(
        self, parts: Parts, shapes: Shapes, dtype: npt.DTypeLike, draws: Draws, workers: Ints, step: int
    ) -> Reals:
        """What receivers make of the fields, shape (rows, entries)."""

    def nbytes(self, shapes: Shapes) -> float:
        """See `Compressor.nbytes`."""
        return sum(field.total_bits for field in self.fields(shapes)) / 8.0

    def decoded(self, values: Reals, shapes: Shapes, draws: Draws, workers: Ints, step: int) -> Reals:
        """See `Compressor.decoded`."""
        parts = self.parts(values, shapes, draws, workers, step)
        return self.joined(parts, shapes, values.dtype, draws, workers, step)

    def encode(self, row: Reals, shapes: Shapes, draws: Draws, worker: int, step: int) -> bytes:
        """See `Compressor.encode`."""
        parts = self.parts(row[None, :], shapes, draws, np.array([worker]), step)
        return packed(self.fields(shapes), tuple(part[0] for part in parts))

    def decode(
        self, message: bytes, shapes: Shapes, dtype: npt.DTypeLike, draws: Draws, worker: int, step: int
    ) -> npt.NDArray[Any]:
        """See `Compressor.decode`."""
        parts = tuple(numbers[None, :] for numbers in unpacked(self.fields(shapes), message))
        return np.asarray(self.joined(parts, shapes, dtype, draws, np.array([worker]), step)[0])


def position_bits(entries: int) -> int:
    """Bits of a position among `entries`, at least one."""
    return max(1, ceil(log2(entries))) if entries > 1 else 1


class Blocks:
    """Runs of entries that share a scale: each tensor, or every `size` entries of the flat vector."""

    __slots__ = ("lengths", "starts")

    def __init__(self, shapes: Shapes, size: int) -> None:
        """Blocks of `size` entries (the last one may be shorter), or tensors where `size` is 0."""
        total = params_of(shapes)
        if size:
            self.starts = np.arange(0, total, size)
        else:
            sizes = [int(np.prod(shape, dtype=np.int64)) for shape in shapes]
            ends = np.cumsum([n for n in sizes if n])
            self.starts = np.concatenate([[0], ends[:-1]])
        self.lengths = np.diff(np.append(self.starts, total))

    def __len__(self) -> int:
        return len(self.starts)

    def largest(self, values: Reals) -> Reals:
        """Largest absolute value of each block, shape (rows, blocks)."""
        return np.asarray(np.maximum.reduceat(np.abs(values), self.starts, axis=1))

    def sums(self, values: Reals) -> npt.NDArray[np.float64]:
        """Sum of each block in double precision, shape (rows, blocks)."""
        return np.asarray(np.add.reduceat(values, self.starts, axis=1, dtype=np.float64))

    def norms(self, values: Reals) -> npt.NDArray[np.float64]:
        """Euclidean norm of each block, shape (rows, blocks)."""
        return np.sqrt(self.sums(np.square(values, dtype=np.float64)))

    def spread(self, scales: Array) -> Array:
        """The scale of every entry, shape (rows, entries)."""
        return np.repeat(scales, self.lengths, axis=1)
