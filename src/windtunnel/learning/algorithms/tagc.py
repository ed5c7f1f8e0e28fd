"""TAGC: the largest entries of large tensors travel in sketches that add over workers; small tensors travel whole.

Source: Polyakov et al. 2025 (arXiv 2504.05638): lossless homomorphic compression of chosen layers inside the
reduce-scatter of sharded data parallelism.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from windtunnel.arrays import Ints, Reals
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.compose import Composed
from windtunnel.learning.compressors.sketch import Sketch
from windtunnel.learning.job import Job
from windtunnel.learning.messages import Message
from windtunnel.learning.state import LearnerState
from windtunnel.learning.tasks.base import Shapes, params_of
from windtunnel.techniques.knobs import Knob


@dataclass(frozen=True, slots=True)
class SketchWire:
    """Sketches of tensors with `least` entries or more, of two dimensions or more; the others in 32 bits."""

    sketch: Sketch
    least: int

    def chosen(self, shapes: Shapes) -> tuple[bool, ...]:
        """Which tensors are sketched."""
        return tuple(len(shape) > 1 and prod(shape) >= self.least for shape in shapes)

    def nbytes(self, shapes: Shapes) -> float:
        """See `WireFormat.nbytes`."""
        chosen = self.chosen(shapes)
        inside = tuple(shape for shape, one in zip(shapes, chosen, strict=True) if one)
        rest = tuple(shape for shape, one in zip(shapes, chosen, strict=True) if not one)
        return (self.sketch.nbytes(inside) if inside else 0.0) + 4.0 * params_of(rest)


@dataclass(slots=True)
class TAGC(Composed):
    """See the module. `estimated` counts values that peeling could not tell apart, step by step."""

    wire: SketchWire = field(default_factory=lambda: SketchWire(Sketch(), 0))
    feedback: float = 1.0
    estimated: list[int] = field(default_factory=list)

    def start(self, initial: Reals) -> LearnerState:
        """An empty memory."""
        self.estimated = []
        state = Composed.start(self, initial)
        state.residual["gradients"] = np.zeros_like(state.params)
        return state

    def before_step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """Sketches are added, maps joined, and the sum is peeled once."""
        job, sketch = self.job, self.wire.sketch
        at, inside = self._inside()
        values = gradients[:, at] + gradients.dtype.type(self.feedback) * state.residual["gradients"][:, at]
        gradients[:] = gradients.mean(axis=0)
        if not len(at):
            return
        cells, support = sketch.parts(values, inside, job.draws, job.everyone, step)
        joined = np.asarray(support.any(axis=0))
        total, estimated = sketch.peeled(cells.sum(axis=0), joined, inside, job.draws, step)
        self.estimated.append(estimated)
        gradients[:, at] = (total / job.workers).astype(gradients.dtype)
        state.residual["gradients"][:, at] = np.where(support > 0, 0, values)

    def messages(self, step: int) -> tuple[Message, ...]:
        """Sums of sketches, as the backward makes them."""
        if self.job.workers == 1:
            return ()
        return (Message(kind="all_reduce", wire=self.wire, after_step=step, needed_by=step + 1, during_backward=True),)

    def _inside(self) -> tuple[Ints, Shapes]:
        """Entries of the sketched tensors, and their shapes."""
        chosen = self.wire.chosen(self.job.shapes)
        sizes = [prod(shape) for shape in self.job.shapes]
        inside = tuple(shape for shape, one in zip(self.job.shapes, chosen, strict=True) if one)
        return np.flatnonzero(np.repeat(chosen, sizes)), inside


def build(job: Job, knobs: dict[str, Any]) -> TAGC:
    """Cells are counted over the entries of the sketched tensors."""
    sketch = Sketch(knobs["fraction"], knobs["cells"], knobs["bits"])
    return TAGC(job, wire=SketchWire(sketch, knobs["least"]), feedback=1.0 if knobs["error_feedback"] else 0.0)


ALGORITHMS.add(
    "tagc",
    AlgorithmKind(
        id="tagc",
        summary="largest entries of large tensors in sketches that add over workers",
        build=build,
        knobs={
            "fraction": Knob(0.02, 1e-9, 1.0, "share of entries that a worker sends"),
            "cells": Knob(0.25, 1e-9, 10.0, "cells over entries; below 1.23 times the joined positions values blur"),
            "bits": Knob(32, choices=(16, 32, 64), doc="bits of a cell"),
            "least": Knob(0, 0, 10**12, "entries of the smallest matrix that is sketched"),
            "error_feedback": Knob(True, doc="whether what is left out is added to the next gradient"),
        },
        family="compression",
        source="Polyakov et al. 2025 (arXiv 2504.05638)",
    ),
)
