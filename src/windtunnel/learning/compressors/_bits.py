"""Bit streams: arrays of numbers with few bits each, packed without gaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Field:
    """Numbers of one kind in a message."""

    count: int
    bits: int
    """Of each number, up to 64. Floating-point numbers have 16, 32 or 64."""
    real: bool = False
    """Whether they are floating-point numbers; others are whole numbers of 0 and more."""

    @property
    def total_bits(self) -> int:
        """Of all of them."""
        return self.count * self.bits

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the array that holds them when the message is open."""
        return np.dtype(f"f{self.bits // 8}" if self.real else np.uint64 if self.bits > 32 else np.uint32)


def packed(fields: tuple[Field, ...], numbers: tuple[Array, ...]) -> bytes:
    """One message: every field in turn, most significant bit first, only its end filled up to a whole byte.

    Args:
        fields: Of the message.
        numbers: One array a field, shape (count,).
    """
    return np.packbits(np.concatenate([_to_bits(f, n) for f, n in zip(fields, numbers, strict=True)])).tobytes()


def unpacked(fields: tuple[Field, ...], message: bytes) -> tuple[Array, ...]:
    """The numbers of each field, shape (count,) each."""
    stream = np.unpackbits(np.frombuffer(message, np.uint8))
    ends = np.cumsum([field.total_bits for field in fields])
    return tuple(_from_bits(f, stream[end - f.total_bits : end]) for f, end in zip(fields, ends, strict=True))


def _to_bits(field: Field, numbers: Array) -> npt.NDArray[np.uint8]:
    if numbers.shape != (field.count,):
        raise ValueError(f"a field of {field.count} numbers was given {numbers.shape}")
    whole = numbers.astype(field.dtype)
    if field.real:
        return np.unpackbits(whole.astype(whole.dtype.newbyteorder(">")).view(np.uint8))
    shifts = np.arange(field.bits - 1, -1, -1, dtype=field.dtype)
    return np.asarray((whole[:, None] >> shifts) & 1, np.uint8).ravel()


def _from_bits(field: Field, bits: npt.NDArray[np.uint8]) -> Array:
    if field.real:
        return np.packbits(bits).view(field.dtype.newbyteorder(">")).astype(field.dtype)
    out = np.zeros(field.count, field.dtype)
    for column in bits.reshape(field.count, field.bits).T:
        out = (out << np.asarray(1, field.dtype)) | column
    return out
