"""A homomorphic sketch: sparse values added into few cells, which sum over workers and are peeled apart afterwards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Ints, Mask, Reals
from windtunnel.learning.compressors import COMPRESSORS, CompressorKind
from windtunnel.learning.compressors._bits import Field
from windtunnel.learning.compressors._coded import Coded, Parts
from windtunnel.learning.compressors.topk import largest
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks.base import Shapes, params_of
from windtunnel.techniques.knobs import Knob

HASHES = 3


@dataclass(frozen=True, slots=True)
class Sketch(Coded):
    """Top-k values, each added with a sign to three cells, and a map of where values are.

    Sums of sketches, with maps joined by *or*, are the sketch of the sum. Cells that hold one value give it away; it is
    taken out of its other cells, and so on. All values come back where the cells are more than about 1.23 times the
    joined positions (the threshold of 3-uniform peeling); what is left then is estimated by the median of its cells.

    Source: Li et al. 2024 (arXiv 2402.07529), lossless homomorphic compression, which TAGC (arXiv 2504.05638) sends in
    place of dense gradients; Molloy 2005 for the threshold.
    """

    fraction: float = 0.01
    """Share of entries that a worker sends."""
    cells: float = 0.1
    """Cells over entries."""
    bits: int = 32
    """Of a cell."""
    id: str = "sketch"
    linear: bool = True
    unbiased: bool = False
    needs_feedback: bool = True

    def fields(self, shapes: Shapes) -> tuple[Field, ...]:
        """Cells, then the map."""
        return (Field(HASHES * self.part(shapes), self.bits, real=True), Field(params_of(shapes), 1))

    def parts(self, values: Reals, shapes: Shapes, draws: Draws, workers: Ints, step: int) -> Parts:
        """See `Coded.parts`."""
        del workers
        rows, entries = values.shape
        kept = largest(values, max(1, min(entries, round(self.fraction * entries))))
        support = np.zeros((rows, entries), np.bool_)
        np.put_along_axis(support, kept, True, axis=1)
        places, signs = self._hashes(shapes, draws, step)
        cells = np.zeros((rows, HASHES * self.part(shapes)))
        for row, (value, where) in enumerate(zip(values, kept, strict=True)):
            for place, sign in zip(places, signs, strict=True):
                np.add.at(cells[row], place[where], sign[where] * value[where])
        return cells.astype(f"f{self.bits // 8}"), support.astype(np.uint8)

    def joined(
        self, parts: Parts, shapes: Shapes, dtype: npt.DTypeLike, draws: Draws, workers: Ints, step: int
    ) -> Reals:
        """See `Coded.joined`."""
        del workers
        cells, support = parts
        return np.stack(
            [
                self.peeled(row, where.astype(np.bool_), shapes, draws, step)[0]
                for row, where in zip(cells, support, strict=True)
            ]
        ).astype(dtype)

    def peeled(self, cells: Reals, support: Mask, shapes: Shapes, draws: Draws, step: int) -> tuple[Reals, int]:
        """Values in a sketch, or in a sum of sketches.

        Args:
            cells: Shape (cells,).
            support: Entries that hold values, shape (entries,).
            shapes: Of the tensors.
            draws: Random numbers of the run.
            step: Of the messages that were added.

        Returns:
            Values, shape (entries,), and how many of them could only be estimated.
        """
        places, signs = self._hashes(shapes, draws, step)
        left = np.flatnonzero(support)
        rest, out = cells.astype(np.float64), np.zeros(params_of(shapes))
        crowd = np.zeros(len(rest), np.int64)
        for place in places:
            crowd += np.bincount(place[left], minlength=len(rest))
        while len(left):
            found = np.zeros(len(left), np.bool_)
            for place, sign in zip(places, signs, strict=True):
                alone = (crowd[place[left]] == 1) & ~found
                out[left[alone]] = sign[left[alone]] * rest[place[left[alone]]]
                found |= alone
            if not found.any():
                break
            gone = left[found]
            for place, sign in zip(places, signs, strict=True):
                np.subtract.at(rest, place[gone], sign[gone] * out[gone])
                crowd -= np.bincount(place[gone], minlength=len(rest))
            left = left[~found]
        if len(left):
            out[left] = np.median(
                [sign[left] * rest[place[left]] for place, sign in zip(places, signs, strict=True)], 0
            )
        return out, len(left)

    def part(self, shapes: Shapes) -> int:
        """Cells that one of the hash functions points to."""
        return max(1, round(self.cells * params_of(shapes) / HASHES))

    def _hashes(self, shapes: Shapes, draws: Draws, step: int) -> tuple[Ints, Reals]:
        """Cell and sign of every entry under each hash function, shape (3, entries) each."""
        entries, part, functions = params_of(shapes), self.part(shapes), np.arange(HASHES)
        places = draws.integers("sketch cell", functions, step, entries, below=part) + part * functions[:, None]
        signs = 1.0 - 2.0 * draws.integers("sketch sign", functions, step, entries, below=2)
        return places, signs


COMPRESSORS.add(
    "sketch",
    CompressorKind(
        id="sketch",
        summary="largest entries in cells that add over workers",
        build=lambda knobs: Sketch(**knobs),
        knobs={
            "fraction": Knob(0.01, 1e-9, 1.0, "share of entries that a worker sends"),
            "cells": Knob(0.1, 1e-9, 10.0, "cells over entries"),
            "bits": Knob(32, choices=(16, 32, 64), doc="bits of a cell"),
        },
        source="Li et al. 2024 (arXiv 2402.07529); TAGC (arXiv 2504.05638)",
    ),
)
