"""TernGrad: gradients in three levels, whose scale workers share, so that their sum takes few bits too.

Source: Wen et al. 2017 (arXiv 1705.07878), algorithm 1 and section 4 (layer-wise ternarising, clipping, shared scale).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, log2
from typing import Any

import numpy as np

from windtunnel.arrays import Reals
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.compose import Composed
from windtunnel.learning.compressors.ternary import Ternary
from windtunnel.learning.job import Job
from windtunnel.learning.messages import Message
from windtunnel.learning.state import LearnerState
from windtunnel.learning.tasks.base import Shapes, params_of
from windtunnel.techniques.knobs import Knob


@dataclass(frozen=True, slots=True)
class Scales:
    """One number a tensor."""

    def nbytes(self, shapes: Shapes) -> float:
        """See `WireFormat.nbytes`."""
        return 4.0 * len(shapes)


@dataclass(frozen=True, slots=True)
class Codes:
    """Whole numbers in `bits` each, or five ternary ones in a byte (1.6)."""

    bits: float

    def nbytes(self, shapes: Shapes) -> float:
        """See `WireFormat.nbytes`."""
        entries = params_of(shapes)
        return float(-(-entries // 5)) if self.bits == 1.6 else entries * self.bits / 8.0


@dataclass(slots=True)
class TernGrad(Composed):
    """See the module."""

    wire: Ternary = field(default_factory=Ternary)

    def before_step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """Codes at the largest scale of all workers are summed, and scaled once."""
        job, wire = self.job, self.wire
        clipped = wire.clipped(gradients, job.shapes)
        scales = wire.scales(clipped, job.shapes).max(axis=0, keepdims=True)
        codes = wire.codes(clipped, scales, job.shapes, job.draws, job.everyone, step)
        total = codes.sum(axis=0, keepdims=True, dtype=np.int64) - len(codes)
        gradients[:] = wire.scaled(total, scales, job.shapes, gradients.dtype)
        gradients /= gradients.dtype.type(len(codes))

    def messages(self, step: int) -> tuple[Message, ...]:
        """The largest scales; codes to the server; their sums, −N … N, back from it."""
        n = self.job.workers
        if n == 1:
            return ()
        pulled = Codes(float(ceil(log2(2 * n + 1))))
        return (
            Message(kind="all_reduce", wire=Scales(), after_step=step, needed_by=step + 1),
            Message(kind="to_server", wire=Codes(self.wire.bits), after_step=step, needed_by=step + 1),
            Message(kind="from_server", wire=pulled, after_step=step, needed_by=step + 1),
        )


def build(job: Job, knobs: dict[str, Any]) -> TernGrad:
    """Three levels for every tensor."""
    return TernGrad(job, wire=Ternary(clip=knobs["clip"], bits=knobs["bits"]))


ALGORITHMS.add(
    "terngrad",
    AlgorithmKind(
        id="terngrad",
        summary="gradients drawn in three levels at a scale that all workers share",
        build=build,
        knobs={
            "clip": Knob(2.5, 0.0, 100.0, "standard deviations beyond which entries are clipped; 0: none"),
            "bits": Knob(2, choices=(2, 1.6), doc="bits of an entry to the server: 2, or five entries in a byte"),
        },
        family="compression",
        source="Wen et al. 2017 (arXiv 1705.07878), algorithm 1",
    ),
)
