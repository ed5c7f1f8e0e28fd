"""Signs: one bit an entry, with a scale for every block."""

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


@dataclass(frozen=True, slots=True)
class Sign(Coded):
    """scale·sign(v), zero counts as positive.

    The l1 scale, ‖v‖₁/n, leaves least: ‖v‖² − ‖v‖₁²/n. DeepSpeed's 1-bit Adam scales by ‖v‖₂/√n instead, which leaves
    2‖v‖² − 2‖v‖₁‖v‖₂/√n.

    Source: Karimireddy et al. 2019 (arXiv 1901.09847), section 4; l2: DeepSpeed, `runtime/comm/nccl.py`.
    """

    scale: str = "l1"
    block: int = 0
    """Entries that share a scale; 0: a tensor."""
    id: str = "sign"
    linear: bool = False
    unbiased: bool = False
    needs_feedback: bool = True

    def fields(self, shapes: Shapes) -> tuple[Field, ...]:
        """Scales, then signs."""
        return (Field(len(Blocks(shapes, self.block)), 32, real=True), Field(params_of(shapes), 1))

    def parts(self, values: Reals, shapes: Shapes, draws: Draws, workers: Ints, step: int) -> Parts:
        """See `Coded.parts`."""
        del draws, workers, step
        blocks = Blocks(shapes, self.block)
        if self.scale == "l1":
            scales = blocks.sums(np.abs(values)) / blocks.lengths
        else:
            scales = blocks.norms(values) / np.sqrt(blocks.lengths)
        return scales.astype(np.float32), (values >= 0).astype(np.uint8)

    def joined(
        self, parts: Parts, shapes: Shapes, dtype: npt.DTypeLike, draws: Draws, workers: Ints, step: int
    ) -> Reals:
        """See `Coded.joined`."""
        del draws, workers, step
        scales, signs = parts
        out = np.array([-1.0, 1.0], dtype)[signs]
        out *= Blocks(shapes, self.block).spread(scales.astype(dtype))
        return np.asarray(out)


COMPRESSORS.add(
    "sign",
    CompressorKind(
        id="sign",
        summary="one bit an entry, with a scale for every block",
        build=lambda knobs: Sign(**knobs),
        knobs={
            "scale": Knob("l1", choices=("l1", "l2"), doc="mean magnitude, or DeepSpeed's norm over root of entries"),
            "block": Knob(0, 0, 10**9, "entries that share a scale; 0: a tensor"),
        },
        source="Karimireddy et al. 2019 (arXiv 1901.09847)",
    ),
)
