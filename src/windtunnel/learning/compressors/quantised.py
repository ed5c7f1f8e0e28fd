"""Quantisation to few bits on a uniform grid, stochastic (QSGD) or to nearest, with a scale for every block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Ints, Reals
from windtunnel.errors import BadInput, Problem
from windtunnel.learning.compressors import COMPRESSORS, CompressorKind
from windtunnel.learning.compressors._bits import Field
from windtunnel.learning.compressors._coded import Blocks, Coded, Parts
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks.base import Shapes, params_of
from windtunnel.techniques.knobs import Knob


@dataclass(frozen=True, slots=True)
class Quantised(Coded):
    """Codes of `bits` bits on a uniform grid from −scale to scale.

    *Mid-tread* grids hold zero and have 2^bits − 1 points: s = 2^(bits−1) − 1 levels a side, QSGD's. *Mid-rise* grids
    have all 2^bits points and no zero, as values have that a sparsifier kept; 1 bit is the sign.

    Source: Alistarh et al. 2017 (arXiv 1610.02132), equation 4 (l2 scale, stochastic) and section 4 (blocks).
    """

    bits: int = 4
    rounding: str = "stochastic"
    """`stochastic`: unbiased, between the two points around a value. `nearest`: biased, with the smallest error."""
    scale: str = "l2"
    """`l2`: norm of the block, as QSGD has it. `max`: its largest magnitude."""
    block: int = 512
    """Entries that share a scale; 0: a tensor."""
    grid: str = "mid-tread"
    scale_bits: int = 32
    id: str = "quantised"
    linear: bool = False

    @property
    def unbiased(self) -> bool:
        """Stochastic rounding is."""
        return self.rounding == "stochastic"

    @property
    def needs_feedback(self) -> bool:
        """Rounding to nearest on a grid of up to 4 points loses most of what it is given."""
        return self.rounding == "nearest" and self.bits <= 2

    @property
    def levels(self) -> int:
        """Intervals of the grid."""
        return (1 << self.bits) - (2 if self.grid == "mid-tread" else 1)

    def fields(self, shapes: Shapes) -> tuple[Field, ...]:
        """Scales, then codes."""
        blocks = len(Blocks(shapes, self.block))
        return (Field(blocks, self.scale_bits, real=True), Field(params_of(shapes), self.bits))

    def parts(self, values: Reals, shapes: Shapes, draws: Draws, workers: Ints, step: int) -> Parts:
        """See `Coded.parts`."""
        blocks = Blocks(shapes, self.block)
        exact = blocks.norms(values) if self.scale == "l2" else blocks.largest(values)
        scales = exact.astype(f"f{self.scale_bits // 8}")
        if self.scale_bits == 16:  # never below what is scaled, nor infinite
            above = np.minimum(np.nextafter(scales, np.float16(np.inf)), np.finfo(np.float16).max)
            scales = np.where(scales < exact, above, scales)
        safe = np.where(scales > 0, scales, 1).astype(values.dtype)
        # place of a value on the grid, from 0 (−scale) to `levels` (scale)
        place = values / blocks.spread(safe)
        place += 1
        place *= self.levels / 2
        if self.rounding == "stochastic":
            lower = np.floor(place)
            place -= lower
            lower += draws.uniforms("quantised", workers, step, values.shape[1]) < place
            place = lower
        else:
            np.rint(place, out=place)
        np.clip(place, 0, self.levels, out=place)
        return scales, place.astype(np.uint8)

    def joined(
        self, parts: Parts, shapes: Shapes, dtype: npt.DTypeLike, draws: Draws, workers: Ints, step: int
    ) -> Reals:
        """See `Coded.joined`."""
        del draws, workers, step
        scales, codes = parts
        points = np.linspace(-1.0, 1.0, self.levels + 1)
        if self.grid == "mid-tread":
            points[self.levels // 2] = 0.0
        out = points.astype(dtype)[codes]
        out *= Blocks(shapes, self.block).spread(scales.astype(dtype))
        return np.asarray(out)


def build(knobs: dict[str, Any]) -> Quantised:
    """Refuses one bit on a grid with zero, which has a single point."""
    if knobs["bits"] == 1 and knobs["grid"] == "mid-tread":
        raise BadInput(Problem("bits", "one bit has no room for zero: needs `grid: mid-rise`", 1))
    return Quantised(**knobs)


COMPRESSORS.add(
    "quantised",
    CompressorKind(
        id="quantised",
        summary="few bits on a uniform grid, rounded stochastically or to nearest, with a scale for every block",
        build=build,
        knobs={
            "bits": Knob(4, 1, 8, "bits of a code"),
            "rounding": Knob("stochastic", choices=("stochastic", "nearest"), doc="stochastic rounding is unbiased"),
            "scale": Knob("l2", choices=("l2", "max"), doc="norm of a block, or its largest magnitude"),
            "block": Knob(512, 0, 10**9, "entries that share a scale; 0: a tensor"),
            "grid": Knob("mid-tread", choices=("mid-tread", "mid-rise"), doc="whether the grid holds zero"),
            "scale_bits": Knob(32, choices=(16, 32), doc="bits of a scale"),
        },
        source="Alistarh et al. 2017 (arXiv 1610.02132)",
    ),
)
