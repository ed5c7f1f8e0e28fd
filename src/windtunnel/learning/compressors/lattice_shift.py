"""QSDP's weights: rounded to a lattice that one random number shifts, so that the error is uniform and unbiased."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Ints, Reals
from windtunnel.learning.compressors import COMPRESSORS, CompressorKind
from windtunnel.learning.compressors._bits import Field
from windtunnel.learning.compressors._coded import Blocks, Coded, Parts
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks.base import Shapes, params_of
from windtunnel.techniques.knobs import Knob


def lattice_points(values: Reals, steps: Reals, shift: Reals) -> Reals:
    """Number k of the nearest point step·(k + shift).

    Args:
        values: Shape (rows, entries).
        steps: Distance of points, broadcast to `values`.
        shift: In steps, in [−½, ½), broadcast to `values`. Drawn uniformly, the nearest point has the value as its
            expectation, and an error that is uniform over half a step.

    Source: Markov et al. 2023 (arXiv 2302.02390), definition 1.
    """
    return np.asarray(np.floor(values / steps - shift + 0.5))


@dataclass(frozen=True, slots=True)
class LatticeShift(Coded):
    """Codes of `bits` bits count lattice points from the lowest of a block; one shift serves all entries of a message.

    A block of range R has step R/(2^bits − 2): shifted, it touches at most 2^bits points.
    """

    bits: int = 8
    block: int = 1024
    """Entries that share a step; 0: a tensor."""
    id: str = "lattice_shift"
    linear: bool = False
    unbiased: bool = True
    needs_feedback: bool = False

    def fields(self, shapes: Shapes) -> tuple[Field, ...]:
        """Lowest points, steps, codes."""
        blocks = len(Blocks(shapes, self.block))
        return (Field(blocks, 32, real=True), Field(blocks, 32, real=True), Field(params_of(shapes), self.bits))

    def parts(self, values: Reals, shapes: Shapes, draws: Draws, workers: Ints, step: int) -> Parts:
        """See `Coded.parts`."""
        blocks = Blocks(shapes, self.block)
        low = np.minimum.reduceat(values, blocks.starts, axis=1)
        span = np.maximum.reduceat(values, blocks.starts, axis=1) - low
        steps = (span / ((1 << self.bits) - 2)).astype(np.float32)
        safe = np.where(steps > 0, steps, 1).astype(values.dtype)
        shift = (draws.uniforms("lattice", workers, step, 1) - 0.5).astype(values.dtype)
        first = lattice_points(low, safe, shift)
        codes = lattice_points(values, blocks.spread(safe), shift) - blocks.spread(first)
        lowest = np.where(steps > 0, safe * (first + shift), low).astype(np.float32)  # a constant block is its value
        return lowest, steps, np.clip(codes, 0, (1 << self.bits) - 1).astype(np.uint8)

    def joined(
        self, parts: Parts, shapes: Shapes, dtype: npt.DTypeLike, draws: Draws, workers: Ints, step: int
    ) -> Reals:
        """See `Coded.joined`."""
        del draws, workers, step
        lowest, steps, codes = parts
        blocks = Blocks(shapes, self.block)
        out = codes.astype(dtype)
        out *= blocks.spread(steps.astype(dtype))
        out += blocks.spread(lowest.astype(dtype))
        return np.asarray(out)


COMPRESSORS.add(
    "lattice_shift",
    CompressorKind(
        id="lattice_shift",
        summary="points of a lattice under one random shift",
        build=lambda knobs: LatticeShift(**knobs),
        knobs={
            "bits": Knob(8, 2, 8, "bits of a code"),
            "block": Knob(1024, 0, 10**9, "entries that share a step; 0: a tensor"),
        },
        source="Markov et al. 2023 (arXiv 2302.02390)",
    ),
)
