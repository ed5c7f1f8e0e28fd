"""TernGrad: three levels, drawn without bias, after large entries were clipped."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Ints, Reals
from windtunnel.learning.compressors import COMPRESSORS, CompressorKind
from windtunnel.learning.compressors._bits import Array, Field
from windtunnel.learning.compressors._coded import Blocks, Coded, Parts
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks.base import Shapes, params_of
from windtunnel.techniques.knobs import Knob

_PLACES = 3 ** np.arange(5)


@dataclass(frozen=True, slots=True)
class Ternary(Coded):
    """s·sign(g)·Bernoulli(|g|/s), s the largest magnitude of a tensor.

    Its variance is s‖g‖₁ − ‖g‖². Clipping at `clip` standard deviations makes s smaller, and biases what is beyond.
    Here every worker has its own s; the algorithm `terngrad` shares the largest over workers, whose codes then add.

    Source: Wen et al. 2017 (arXiv 1705.07878), equations 4, 8 and 10.
    """

    clip: float = 2.5
    """Standard deviations of a tensor; 0: nothing is clipped."""
    bits: float = 2
    """Of an entry: 2, or 1.6 (five in a byte)."""
    id: str = "ternary"
    linear: bool = False
    needs_feedback: bool = False

    @property
    def unbiased(self) -> bool:
        """Where nothing is clipped."""
        return self.clip == 0

    def fields(self, shapes: Shapes) -> tuple[Field, ...]:
        """Scales, then codes: two bits each, or five in a byte."""
        entries = params_of(shapes)
        codes = Field(entries, 2) if self.bits == 2 else Field(-(-entries // 5), 8)
        return (Field(len(Blocks(shapes, 0)), 32, real=True), codes)

    def parts(self, values: Reals, shapes: Shapes, draws: Draws, workers: Ints, step: int) -> Parts:
        """See `Coded.parts`."""
        clipped = self.clipped(values, shapes)
        scales = self.scales(clipped, shapes)
        codes = self.codes(clipped, scales, shapes, draws, workers, step)
        return scales, codes if self.bits == 2 else _five_in_a_byte(codes)

    def joined(
        self, parts: Parts, shapes: Shapes, dtype: npt.DTypeLike, draws: Draws, workers: Ints, step: int
    ) -> Reals:
        """See `Coded.joined`."""
        del draws, workers, step
        scales, codes = parts
        if self.bits != 2:
            codes = _from_bytes(codes, params_of(shapes))
        return self.scaled(codes.astype(np.int64) - 1, scales, shapes, dtype)

    def scaled(self, levels: Ints, scales: Array, shapes: Shapes, dtype: npt.DTypeLike) -> Reals:
        """Levels (−1, 0, 1, or sums of them) times the scales of their tensors, shape (rows, entries)."""
        out = levels.astype(dtype)
        out *= Blocks(shapes, 0).spread(scales.astype(dtype))
        return np.asarray(out)

    def clipped(self, values: Reals, shapes: Shapes) -> Reals:
        """Values, none beyond `clip` standard deviations of its tensor."""
        if not self.clip:
            return values
        blocks = Blocks(shapes, 0)
        mean = blocks.sums(values) / blocks.lengths
        variance = blocks.sums(np.square(values, dtype=np.float64)) / blocks.lengths - mean**2
        limit = self.clip * np.sqrt(np.maximum(variance, 0.0))
        limit = np.where(blocks.lengths > 1, limit, np.inf)  # one entry has no deviation
        bound = blocks.spread(limit.astype(values.dtype))
        return np.asarray(np.clip(values, -bound, bound))

    def scales(self, clipped: Reals, shapes: Shapes) -> npt.NDArray[np.float32]:
        """Largest magnitude of each tensor, shape (rows, tensors), as it travels."""
        exact = Blocks(shapes, 0).largest(clipped)
        rounded = exact.astype(np.float32)
        return np.where(rounded < exact, np.nextafter(rounded, np.float32(np.inf)), rounded)

    def codes(
        self,
        clipped: Reals,
        scales: npt.NDArray[np.float32],
        shapes: Shapes,
        draws: Draws,
        workers: Ints,
        step: int,
    ) -> npt.NDArray[np.uint8]:
        """0, 1, 2 for −1, 0, 1 of each entry, shape (rows, entries), at given scales, shape (rows or 1, tensors)."""
        safe = np.where(scales > 0, scales, 1).astype(clipped.dtype)
        chance = np.abs(clipped) / Blocks(shapes, 0).spread(safe)
        hit = draws.uniforms("ternary", workers, step, clipped.shape[1]) < chance
        return np.asarray(1 + np.where(clipped < 0, -1, 1) * hit, np.uint8)


def _five_in_a_byte(codes: Array) -> Array:
    filled = np.pad(codes, ((0, 0), (0, -codes.shape[1] % 5)))
    return np.asarray(filled.reshape(len(codes), -1, 5) @ _PLACES, np.uint8)


def _from_bytes(numbers: Array, entries: int) -> Array:
    digits = numbers.astype(np.int64)[:, :, None] // _PLACES % 3
    return np.asarray(digits.reshape(len(numbers), -1)[:, :entries])


COMPRESSORS.add(
    "ternary",
    CompressorKind(
        id="ternary",
        summary="three levels, drawn without bias",
        build=lambda knobs: Ternary(**knobs),
        knobs={
            "clip": Knob(2.5, 0.0, 100.0, "standard deviations beyond which entries are clipped; 0: none"),
            "bits": Knob(2, choices=(2, 1.6), doc="bits of an entry: 2, or five entries in a byte"),
        },
        source="Wen et al. 2017 (arXiv 1705.07878)",
    ),
)
