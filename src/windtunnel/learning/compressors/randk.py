"""Rand-k: entries at positions that a shared seed draws, so that positions need not travel."""

from __future__ import annotations

from dataclasses import dataclass

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
class RandK(Coded):
    """k of d entries, drawn anew for every message; ×d/k where `scaled`, which makes it unbiased.

    Source: Stich et al. 2018 (arXiv 1809.07599), definition 2.1; scaled: Horváth et al. 2019 (arXiv 1904.05115).
    """

    fraction: float = 0.01
    scaled: bool = True
    shared: bool = True
    """Whether all workers draw the same positions: then encodings can be added on their way."""
    bits: int = 32
    """Of a value."""
    id: str = "randk"

    @property
    def linear(self) -> bool:
        """Equal positions add."""
        return self.shared

    @property
    def unbiased(self) -> bool:
        """Where what is sent stands for what is not."""
        return self.scaled

    @property
    def needs_feedback(self) -> bool:
        """Where it does not."""
        return not self.scaled

    def fields(self, shapes: Shapes) -> tuple[Field, ...]:
        """Values alone."""
        return (Field(self.sent(shapes), self.bits, real=True),)

    def parts(self, values: Reals, shapes: Shapes, draws: Draws, workers: Ints, step: int) -> Parts:
        """See `Coded.parts`."""
        return (self.select(values, shapes, draws, workers, step)[0].astype(f"f{self.bits // 8}"),)

    def joined(
        self, parts: Parts, shapes: Shapes, dtype: npt.DTypeLike, draws: Draws, workers: Ints, step: int
    ) -> Reals:
        """See `Coded.joined`."""
        return self.scatter(parts[0].astype(dtype), (), shapes, draws, workers, step)

    # -- a `Sparsifier` of `chain`

    def kept_shapes(self, shapes: Shapes) -> Shapes:
        """One vector."""
        return ((self.sent(shapes),),)

    def position_fields(self, shapes: Shapes) -> tuple[Field, ...]:
        """None: receivers draw the positions too."""
        del shapes
        return ()

    def select(self, values: Reals, shapes: Shapes, draws: Draws, workers: Ints, step: int) -> tuple[Reals, Parts]:
        """Drawn entries, shape (rows, k)."""
        kept = np.take_along_axis(values, self._positions(shapes, draws, workers, step), axis=1)
        if self.scaled:
            kept *= values.dtype.type(params_of(shapes) / self.sent(shapes))
        return kept, ()

    def scatter(self, kept: Reals, positions: Parts, shapes: Shapes, draws: Draws, workers: Ints, step: int) -> Reals:
        """Kept values at the drawn places in rows of zeros, shape (rows, entries)."""
        del positions
        out = np.zeros((len(kept), params_of(shapes)), kept.dtype)
        np.put_along_axis(out, self._positions(shapes, draws, workers, step), kept, axis=1)
        return out

    def sent(self, shapes: Shapes) -> int:
        """Entries of a message."""
        total = params_of(shapes)
        return max(1, min(total, round(self.fraction * total)))

    def _positions(self, shapes: Shapes, draws: Draws, workers: Ints, step: int) -> Ints:
        """Shape (rows, k), ascending."""
        total, k = params_of(shapes), self.sent(shapes)
        keys = draws.uniforms("randk", 0 if self.shared else workers, step, total)
        found = np.sort(np.argpartition(keys, k - 1, axis=1)[:, :k], axis=1)
        return np.broadcast_to(found, (len(workers), k))


COMPRESSORS.add(
    "randk",
    CompressorKind(
        id="randk",
        summary="entries at drawn positions, which need not travel",
        build=lambda knobs: RandK(**knobs),
        knobs={
            "fraction": Knob(0.01, 1e-9, 1.0, "share of entries that are sent"),
            "scaled": Knob(True, doc="values times d/k: unbiased"),
            "shared": Knob(True, doc="whether all workers draw the same positions"),
            "bits": Knob(32, choices=(16, 32, 64), doc="bits of a value"),
        },
        source="Stich et al. 2018 (arXiv 1809.07599)",
    ),
)
