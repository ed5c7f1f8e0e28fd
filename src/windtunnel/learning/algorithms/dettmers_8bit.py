"""8-bit approximations: data parallelism whose gradients travel as 8-bit numbers, without feedback.

Every worker owns a part of the vector: it gets all others' 8-bit values of that part, averages them, and sends the mean
of its part to all in 8 bits again. Bytes are a quarter of those of a 32-bit all-reduce.

Source: Dettmers 2015 (arXiv 1511.04561).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any

import numpy as np

from windtunnel.arrays import Reals
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.compose import Composed
from windtunnel.learning.compressors.dynamic_tree8 import DynamicTree8
from windtunnel.learning.job import Job
from windtunnel.learning.messages import Message
from windtunnel.learning.state import LearnerState
from windtunnel.learning.tasks.base import Shapes, params_of
from windtunnel.techniques.knobs import Knob


@dataclass(frozen=True, slots=True)
class OwnPart:
    """One worker's part of the means in 8 bits, and its scale."""

    workers: int

    def nbytes(self, shapes: Shapes) -> float:
        """See `WireFormat.nbytes`."""
        return params_of(shapes) / self.workers + 4.0


@dataclass(slots=True)
class EightBit(Composed):
    """See the module."""

    wire: DynamicTree8 = field(default_factory=DynamicTree8)

    def before_step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """Rounded once by every worker, and once more by the owner of the part."""
        job = self.job
        if job.workers == 1:
            return
        sent = self.wire.decoded(gradients, job.shapes, job.draws, job.everyone, step)
        mean = sent.mean(axis=0, keepdims=True)
        gradients[:] = self.part_wire.decoded(mean, job.shapes, job.draws, np.zeros(1, np.int64), step)

    @property
    def part_wire(self) -> DynamicTree8:
        """One scale for each owner's part."""
        return replace(self.wire, block=ceil(params_of(self.job.shapes) / self.job.workers))

    def messages(self, step: int) -> tuple[Message, ...]:
        """Values to the owners of their parts, as the backward makes them, and means to all."""
        if self.job.workers == 1:
            return ()
        part = OwnPart(self.job.workers)
        return (
            Message(kind="reduce_scatter", wire=self.wire, after_step=step, needed_by=step + 1, during_backward=True),
            Message(kind="all_gather", wire=part, after_step=step, needed_by=step + 1),
        )


def build(job: Job, knobs: dict[str, Any]) -> EightBit:
    """No feedback: eight bits lose little."""
    return EightBit(job, wire=DynamicTree8(knobs["kind"], knobs["block"]))


ALGORITHMS.add(
    "dettmers-8bit",
    AlgorithmKind(
        id="dettmers-8bit",
        summary="gradients as 8-bit numbers, dynamic tree or linear",
        build=build,
        knobs={
            "kind": Knob("tree", choices=("tree", "linear"), doc="the 8-bit type"),
            "block": Knob(0, 0, 10**9, "entries that share a worker's scale; 0: a tensor"),
        },
        family="compression",
        source="Dettmers 2015 (arXiv 1511.04561)",
    ),
)
