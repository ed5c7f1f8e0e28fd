"""Compressors: what stands for a tensor on its way, and how many bytes that has."""

from __future__ import annotations

from typing import Any, Protocol

import numpy.typing as npt

from windtunnel.arrays import Ints, Reals
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks.base import Shapes


class Compressor(Protocol):
    """A compressor of rows; it is a `WireFormat`."""

    @property
    def id(self) -> str:
        """Id in the registry."""

    @property
    def linear(self) -> bool:
        """Whether the sum of encodings encodes the sum.

        An all-reduce adds such encodings on their way; others are gathered, decoded and then added.
        """

    @property
    def unbiased(self) -> bool:
        """Whether its expectation is what was given."""

    @property
    def needs_feedback(self) -> bool:
        """Whether what it leaves out has to be added to the next message, or training stalls."""

    def nbytes(self, shapes: Shapes) -> float:
        """Bytes of one row's encoding of tensors with these shapes; equals `len(encode(row))` but for whole bytes."""

    def decoded(self, values: Reals, shapes: Shapes, draws: Draws, workers: Ints, step: int) -> Reals:
        """What receivers make of each row: decode(encode(row)), in a new array.

        Args:
            values: Shape (rows, entries): flat tensors of `shapes`, one row for each of `workers`; not changed.
            shapes: Of the tensors.
            draws: Random numbers of the run.
            workers: Worker of each row, the key of its draws.
            step: Of the message, the key of its draws.
        """

    def encode(self, row: Reals, shapes: Shapes, draws: Draws, worker: int, step: int) -> bytes:
        """The message itself, for one row of shape (entries,)."""

    def decode(
        self, message: bytes, shapes: Shapes, dtype: npt.DTypeLike, draws: Draws, worker: int, step: int
    ) -> npt.NDArray[Any]:
        """What a receiver makes of a message: shape (entries,), of the type that the task computes in.

        Args:
            message: From `encode`.
            shapes: Of the tensors.
            dtype: Of the row that was encoded.
            draws: Random numbers of the run, which sender and receiver share.
            worker: That sent it.
            step: Of the message.
        """
