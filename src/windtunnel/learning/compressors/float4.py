"""Four-bit floating point: E3M0 and E2M1, with a scale for every block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats, Ints, Reals
from windtunnel.learning.compressors import COMPRESSORS, CompressorKind
from windtunnel.learning.compressors._bits import Field
from windtunnel.learning.compressors._coded import Blocks, Coded, Parts
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks.base import Shapes, params_of
from windtunnel.techniques.knobs import Knob

MAGNITUDES = {
    "e3m0": np.array([0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0]),
    "e2m1": np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]),
}
"""Numbers of a format without their sign, by code: E3M0 has zero and powers of two (bias 3); E2M1 is OCP's FP4."""


@dataclass(frozen=True, slots=True)
class Float4(Coded):
    """A sign and three bits of magnitude; the largest of a block gets the largest number of the format.

    Source: E3M0 for outer gradients: Streaming DiLoCo (arXiv 2501.18512); E2M1: OCP Microscaling Formats
    1.0, section 5.3.3.
    """

    format: str = "e3m0"
    block: int = 0
    """Entries that share a scale; 0: a tensor."""
    rounding: str = "nearest"
    id: str = "float4"
    linear: bool = False
    needs_feedback: bool = False

    @property
    def unbiased(self) -> bool:
        """Stochastic rounding is."""
        return self.rounding == "stochastic"

    @property
    def magnitudes(self) -> Floats:
        """Numbers of the format that are not negative, ascending, the largest is 1."""
        table = MAGNITUDES[self.format]
        return np.asarray(table / table[-1])

    def fields(self, shapes: Shapes) -> tuple[Field, ...]:
        """Scales, then codes."""
        return (Field(len(Blocks(shapes, self.block)), 32, real=True), Field(params_of(shapes), 4))

    def parts(self, values: Reals, shapes: Shapes, draws: Draws, workers: Ints, step: int) -> Parts:
        """See `Coded.parts`."""
        blocks = Blocks(shapes, self.block)
        scales = blocks.largest(values).astype(np.float32)
        safe = np.where(scales > 0, scales, 1).astype(values.dtype)
        size = np.abs(values)
        size /= blocks.spread(safe)
        table = self.magnitudes
        if self.rounding == "stochastic":
            below = np.clip(np.searchsorted(table, size, side="right") - 1, 0, len(table) - 2)
            share = (size - table[below]) / (table[below + 1] - table[below])
            codes = below + (draws.uniforms("float4", workers, step, values.shape[1]) < share)
        else:
            codes = np.zeros(size.shape, np.uint8)
            for border in (table[1:] + table[:-1]) / 2:
                codes += size > border
        return scales, (codes | np.where(values < 0, 8, 0)).astype(np.uint8)

    def joined(
        self, parts: Parts, shapes: Shapes, dtype: npt.DTypeLike, draws: Draws, workers: Ints, step: int
    ) -> Reals:
        """See `Coded.joined`."""
        del draws, workers, step
        scales, codes = parts
        out = np.concatenate([self.magnitudes, -self.magnitudes]).astype(dtype)[codes]
        out *= Blocks(shapes, self.block).spread(scales.astype(dtype))
        return np.asarray(out)


COMPRESSORS.add(
    "float4",
    CompressorKind(
        id="float4",
        summary="four-bit floating point, E3M0 or E2M1",
        build=lambda knobs: Float4(**knobs),
        knobs={
            "format": Knob("e3m0", choices=("e3m0", "e2m1"), doc="bits of exponent and mantissa"),
            "block": Knob(0, 0, 10**9, "entries that share a scale; 0: a tensor"),
            "rounding": Knob("nearest", choices=("nearest", "stochastic"), doc="stochastic rounding is unbiased"),
        },
        source="Streaming DiLoCo (arXiv 2501.18512)",
    ),
)
