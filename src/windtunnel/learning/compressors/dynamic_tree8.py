"""Eight-bit types: the dynamic tree, whose exponent takes as many bits as it needs, and the linear one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats, Ints, Reals
from windtunnel.learning.compressors import COMPRESSORS, CompressorKind
from windtunnel.learning.compressors._bits import Field
from windtunnel.learning.compressors._coded import Blocks, Coded, Parts
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks.base import Shapes, params_of
from windtunnel.techniques.knobs import Knob


@lru_cache(maxsize=2)
def numbers(kind: str) -> Floats:
    """Numbers of a type in [−1, 1], ascending, shape (256,) or (255,).

    Dynamic tree: sign, e zeros for 10^−e, a one, and 6 − e bits that halve [0.1, 1]; a code is the middle of its
    interval. Zero and one complete it. Linear: 127 equal steps a side.

    Source: Dettmers 2015 (arXiv 1511.04561), section 2.
    """
    if kind == "linear":
        return np.linspace(-1.0, 1.0, 255)
    positive = []
    for zeros in range(7):
        edges = np.linspace(0.1, 1.0, 2 ** (6 - zeros) + 1)
        positive.append(10.0**-zeros * (edges[1:] + edges[:-1]) / 2)
    one_side = np.sort(np.concatenate(positive))
    return np.concatenate([-one_side[::-1], [0.0], one_side, [1.0]])


_BINS = 1 << 16
_FEW = 2.0**-8
"""Magnitudes below are searched for one by one: numbers of the tree lie closer there than bins do."""


@lru_cache(maxsize=2)
def _first_codes(kind: str) -> tuple[Floats, npt.NDArray[np.uint8]]:
    """Borders between the numbers, then infinity; and the code at the lower end of each of `_BINS` bins of [−1, 1]."""
    table = numbers(kind)
    borders = (table[1:] + table[:-1]) / 2
    ends = np.linspace(-1.0, 1.0, _BINS + 1)
    return np.append(borders, np.inf), np.searchsorted(borders, ends).astype(np.uint8)


def nearest(kind: str, share: Reals) -> npt.NDArray[np.uint8]:
    """Codes of the nearest numbers of a type, shape of `share`, whose entries are in [−1, 1]."""
    borders, first = _first_codes(kind)
    codes = first[((share + 1) * (_BINS / 2)).astype(np.int32)]
    codes -= (codes > 0) & (share <= borders[codes.astype(np.int64) - 1])
    codes += share > borders[codes]
    few = np.abs(share) < _FEW
    codes[few] = np.searchsorted(borders[:-1], share[few])
    return np.asarray(codes)


@dataclass(frozen=True, slots=True)
class DynamicTree8(Coded):
    """The nearest of 256 numbers, times the largest magnitude of a block."""

    kind: str = "tree"
    block: int = 0
    """Entries that share a scale; 0: a tensor."""
    id: str = "dynamic_tree8"
    linear: bool = False
    unbiased: bool = False
    needs_feedback: bool = False

    def fields(self, shapes: Shapes) -> tuple[Field, ...]:
        """Scales, then codes."""
        return (Field(len(Blocks(shapes, self.block)), 32, real=True), Field(params_of(shapes), 8))

    def parts(self, values: Reals, shapes: Shapes, draws: Draws, workers: Ints, step: int) -> Parts:
        """See `Coded.parts`."""
        del draws, workers, step
        blocks = Blocks(shapes, self.block)
        scales = blocks.largest(values).astype(np.float32)
        share = values / blocks.spread(np.where(scales > 0, scales, 1).astype(values.dtype))
        return scales, nearest(self.kind, share)

    def joined(
        self, parts: Parts, shapes: Shapes, dtype: npt.DTypeLike, draws: Draws, workers: Ints, step: int
    ) -> Reals:
        """See `Coded.joined`."""
        del draws, workers, step
        scales, codes = parts
        out = numbers(self.kind).astype(dtype)[codes]
        out *= Blocks(shapes, self.block).spread(scales.astype(dtype))
        return np.asarray(out)


COMPRESSORS.add(
    "dynamic_tree8",
    CompressorKind(
        id="dynamic_tree8",
        summary="eight bits, dynamic tree or linear",
        build=lambda knobs: DynamicTree8(**knobs),
        knobs={
            "kind": Knob("tree", choices=("tree", "linear"), doc="the type"),
            "block": Knob(0, 0, 10**9, "entries that share a scale; 0: a tensor"),
        },
        source="Dettmers 2015 (arXiv 1511.04561), section 2",
    ),
)
