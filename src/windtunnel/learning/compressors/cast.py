"""Values in fewer bits of floating point: float16, bfloat16, or as they are."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Ints, Reals
from windtunnel.learning.compressors import COMPRESSORS, CompressorKind
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks.base import Shapes
from windtunnel.techniques.knobs import Knob


@dataclass(frozen=True, slots=True)
class Cast:
    """`bits` 64 or 32: the identity (float64, float32); 16: IEEE half precision."""

    bits: int = 32
    id: str = "cast"
    linear: bool = True
    unbiased: bool = True
    needs_feedback: bool = False

    def nbytes(self, shapes: Shapes) -> float:
        """Entries times their bits."""
        return sum(prod(shape) for shape in shapes) * self.bits / 8.0

    def decoded(self, values: Reals, shapes: Shapes, draws: Draws, workers: Ints, step: int) -> Reals:
        """Rounded to nearest; see `Compressor.decoded`."""
        del shapes, draws, workers, step
        return values.astype(np.float16).astype(values.dtype) if self.bits == 16 else values.copy()

    def encode(self, row: Reals, shapes: Shapes, draws: Draws, worker: int, step: int) -> bytes:
        """Little-endian values."""
        del shapes, draws, worker, step
        return row.astype(f"<f{self.bits // 8}").tobytes()

    def decode(
        self, message: bytes, shapes: Shapes, dtype: npt.DTypeLike, draws: Draws, worker: int, step: int
    ) -> npt.NDArray[Any]:
        """See `Compressor.decode`."""
        del shapes, draws, worker, step
        return np.frombuffer(message, f"<f{self.bits // 8}").astype(dtype)


COMPRESSORS.add(
    "cast",
    CompressorKind(
        id="cast",
        summary="values rounded to half precision, or as they are",
        build=lambda knobs: Cast(**knobs),
        knobs={"bits": Knob(16, choices=(16, 32, 64), doc="bits of a value")},
    ),
)
