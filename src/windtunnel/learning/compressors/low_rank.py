"""Low rank: a tensor as the product of two thin factors, by one step of power iteration.

One row is compressed here from its own values alone. PowerSGD sums the factors of all workers between the two halves
of the step, which no compressor of single rows can: the algorithm `powersgd` does that with the functions of this file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Ints, Reals
from windtunnel.learning.compressors import COMPRESSORS, CompressorKind
from windtunnel.learning.compressors._bits import Field
from windtunnel.learning.compressors._coded import Coded, Parts
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks.base import Shapes, params_of
from windtunnel.techniques.knobs import Knob


@dataclass(frozen=True, slots=True)
class Matrix:
    """A tensor in a flat vector, seen as a matrix; or a vector, which is sent whole."""

    start: int
    rows: int
    """Its first dimension; 1 for a vector."""
    columns: int
    """All its other dimensions."""
    rank: int
    """Of its factors; 0: sent whole."""

    @property
    def entries(self) -> slice:
        """Where it lies."""
        return slice(self.start, self.start + self.rows * self.columns)


def matrices(shapes: Shapes, rank: int) -> Iterator[Matrix]:
    """All tensors; those whose factors would not be smaller than they are are sent whole, as vectors are.

    A rank is at most the smaller side of its matrix.
    """
    at = 0
    for shape in shapes:
        rows, columns = (1, prod(shape)) if len(shape) < 2 else (shape[0], prod(shape[1:]))
        own = min(rank, rows, columns)
        yield Matrix(at, rows, columns, own if own * (rows + columns) < rows * columns else 0)
        at += rows * columns


def orthonormal(columns: Reals) -> Reals:
    """Orthonormal columns that span the given ones, shape (…, n, r), by QR decomposition."""
    return np.asarray(np.linalg.qr(columns)[0])


def factor_entries(shapes: Shapes, rank: int) -> tuple[int, int, int]:
    """Entries of all left factors P, of all right factors Q, and of tensors that are sent whole."""
    found = list(matrices(shapes, rank))
    left = sum(m.rows * m.rank for m in found)
    right = sum(m.columns * m.rank for m in found)
    return left, right, sum(m.rows * m.columns for m in found if not m.rank)


@dataclass(frozen=True, slots=True)
class LowRank(Coded):
    """M ≈ P·Qᵀ: P orthonormal from M times drawn columns, Q = MᵀP.

    Source: Vogels et al. 2019 (arXiv 1905.13727), algorithm 1, for one worker and without warm start.
    """

    rank: int = 2
    bits: int = 32
    """Of a value."""
    id: str = "low_rank"
    linear: bool = False
    unbiased: bool = False
    needs_feedback: bool = True

    def fields(self, shapes: Shapes) -> tuple[Field, ...]:
        """Left factors, right factors, whole tensors."""
        return tuple(Field(count, self.bits, real=True) for count in factor_entries(shapes, self.rank))

    def parts(self, values: Reals, shapes: Shapes, draws: Draws, workers: Ints, step: int) -> Parts:
        """See `Coded.parts`."""
        del workers
        rows, empty = len(values), np.zeros((len(values), 0), values.dtype)
        left, right, whole = [empty], [empty], [empty]
        for number, m in enumerate(matrices(shapes, self.rank)):
            if not m.rank:
                whole.append(values[:, m.entries])
                continue
            matrix = values[:, m.entries].reshape(rows, m.rows, m.columns)
            start = draws.normals(f"low rank {number}", 0, step, m.columns * m.rank).astype(values.dtype)
            p = orthonormal(matrix @ start.reshape(m.columns, m.rank))
            left.append(p.reshape(rows, -1))
            right.append((matrix.swapaxes(1, 2) @ p).reshape(rows, -1))
        wire = f"f{self.bits // 8}"
        return tuple(np.concatenate(part, axis=1).astype(wire) for part in (left, right, whole))

    def joined(
        self, parts: Parts, shapes: Shapes, dtype: npt.DTypeLike, draws: Draws, workers: Ints, step: int
    ) -> Reals:
        """See `Coded.joined`."""
        del draws, workers, step
        left, right, whole = (part.astype(dtype) for part in parts)
        rows = len(left)
        out = np.empty((rows, params_of(shapes)), dtype)
        at = [0, 0, 0]
        for m in matrices(shapes, self.rank):
            if not m.rank:
                size = m.rows * m.columns
                out[:, m.entries] = whole[:, at[2] : at[2] + size]
                at[2] += size
                continue
            p = left[:, at[0] : at[0] + m.rows * m.rank].reshape(rows, m.rows, m.rank)
            q = right[:, at[1] : at[1] + m.columns * m.rank].reshape(rows, m.columns, m.rank)
            out[:, m.entries] = (p @ q.swapaxes(1, 2)).reshape(rows, -1)
            at[0], at[1] = at[0] + m.rows * m.rank, at[1] + m.columns * m.rank
        return out


COMPRESSORS.add(
    "low_rank",
    CompressorKind(
        id="low_rank",
        summary="two thin factors of every matrix",
        build=lambda knobs: LowRank(**knobs),
        knobs={
            "rank": Knob(2, 1, 10_000, "columns of a factor"),
            "bits": Knob(32, choices=(16, 32, 64), doc="bits of a value"),
        },
        source="Vogels et al. 2019 (arXiv 1905.13727)",
    ),
)
