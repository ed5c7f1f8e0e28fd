"""A chain: what a sparsifier keeps goes through another compressor (SparseLoCo: chunk top-k, then two bits)."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isqrt
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Ints, Reals
from windtunnel.errors import ProblemList
from windtunnel.learning.compressors import COMPRESSORS, CompressorKind
from windtunnel.learning.compressors._bits import Field
from windtunnel.learning.compressors._coded import Coded, Parts
from windtunnel.learning.compressors.topk import TopK
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks.base import Shapes
from windtunnel.techniques.knobs import Knob, with_defaults


class Sparsifier(Protocol):
    """A compressor that keeps some numbers and says where they belong: `TopK`, `RandK`, `Dct`."""

    @property
    def id(self) -> str:
        """Id in the registry."""

    @property
    def linear(self) -> bool:
        """See `Compressor.linear`."""

    @property
    def unbiased(self) -> bool:
        """See `Compressor.unbiased`."""

    @property
    def needs_feedback(self) -> bool:
        """See `Compressor.needs_feedback`."""

    def kept_shapes(self, shapes: Shapes) -> Shapes:
        """What is kept, as vectors: one a chunk, so that a chunk may have its own scale."""

    def position_fields(self, shapes: Shapes) -> tuple[Field, ...]:
        """How positions travel; empty where receivers draw them too."""

    def select(self, values: Reals, shapes: Shapes, draws: Draws, workers: Ints, step: int) -> tuple[Reals, Parts]:
        """Kept numbers, shape (rows, kept), and the numbers of the position fields."""

    def scatter(self, kept: Reals, positions: Parts, shapes: Shapes, draws: Draws, workers: Ints, step: int) -> Reals:
        """Rows from kept numbers, shape (rows, entries)."""


@dataclass(frozen=True, slots=True)
class Chain(Coded):
    """First `select`, then `code` what it kept; a message holds the code's fields, then positions."""

    select: Sparsifier = field(default_factory=TopK)
    code: Coded = field(default_factory=TopK)
    id: str = "chain"

    @property
    def linear(self) -> bool:
        """Where both are."""
        return self.select.linear and bool(getattr(self.code, "linear", False))

    @property
    def unbiased(self) -> bool:
        """Where both are."""
        return self.select.unbiased and bool(getattr(self.code, "unbiased", False))

    @property
    def needs_feedback(self) -> bool:
        """Where one does."""
        return self.select.needs_feedback or bool(getattr(self.code, "needs_feedback", False))

    def fields(self, shapes: Shapes) -> tuple[Field, ...]:
        """Of the code, then positions."""
        return (*self.code.fields(self.select.kept_shapes(shapes)), *self.select.position_fields(shapes))

    def parts(self, values: Reals, shapes: Shapes, draws: Draws, workers: Ints, step: int) -> Parts:
        """See `Coded.parts`."""
        kept, positions = self.select.select(values, shapes, draws, workers, step)
        return (*self.code.parts(kept, self.select.kept_shapes(shapes), draws, workers, step), *positions)

    def joined(
        self, parts: Parts, shapes: Shapes, dtype: npt.DTypeLike, draws: Draws, workers: Ints, step: int
    ) -> Reals:
        """See `Coded.joined`."""
        inside = self.select.kept_shapes(shapes)
        split = len(self.code.fields(inside))
        kept = self.code.joined(parts[:split], inside, dtype, draws, workers, step)
        return self.select.scatter(np.asarray(kept), parts[split:], shapes, draws, workers, step)


def build(knobs: dict[str, Any]) -> Chain:
    """Defaults of the two parts, with the chain's own knobs laid over them where the parts have them."""
    of_select = {"fraction": knobs["fraction"], "chunk": knobs["chunk"]}
    if knobs["select"] == "dct":
        chunk = knobs["chunk"] or 4096
        of_select = {"k": max(1, round(knobs["fraction"] * chunk)), "chunk": max(1, isqrt(chunk))}
    given = {"bits": knobs["bits"], "rounding": knobs["rounding"], "block": knobs["block"]}
    if knobs["code"] == "quantised":  # what was kept is not near zero
        given |= {"scale": "max", "grid": "mid-rise"}
    return Chain(select=_part(knobs["select"], of_select), code=_part(knobs["code"], given))


def _part(id: str, given: dict[str, Any]) -> Any:
    kind = COMPRESSORS.get(id)
    problems = ProblemList()
    values = with_defaults(kind.knobs, {k: v for k, v in given.items() if k in kind.knobs}, id, problems)
    problems.raise_if_any()
    return kind.build(values)


COMPRESSORS.add(
    "chain",
    CompressorKind(
        id="chain",
        summary="a sparsifier, then few bits for what it kept",
        build=build,
        knobs={
            "select": Knob("topk", choices=("topk", "randk", "dct"), doc="what is kept"),
            "fraction": Knob(0.02, 1e-9, 1.0, "share of entries that are kept"),
            "chunk": Knob(4096, 0, 10**9, "entries of a chunk (topk, dct); 0: whole (topk)"),
            "code": Knob("quantised", choices=("quantised", "float4", "sign", "dynamic_tree8"), doc="how it travels"),
            "bits": Knob(2, 1, 8, "bits of a code (quantised)"),
            "rounding": Knob("nearest", choices=("nearest", "stochastic"), doc="of a code (quantised, float4)"),
            "block": Knob(0, 0, 10**9, "kept entries that share a scale; 0: those of a chunk"),
        },
        source="SparseLoCo (arXiv 2508.15706)",
    ),
)
