"""SWARM: stages of a pipeline served by pools of peers; micro-batches find their own way, and gradients stay exact.

Each worker's micro-batch is routed to one peer of every stage. A peer adds the gradients of those that came by, and
the peers of a stage average theirs, so that everyone steps on the mean over micro-batches, as data parallelism does.
What travels: a stage's gradients among its peers, and activations and their gradients over the boundaries.

Source: Ryabinin et al. 2023 (arXiv 2301.11913)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from windtunnel.arrays import Ints, Reals
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms import _parts as parts
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.compose import Composed
from windtunnel.learning.compressors.cast import Cast
from windtunnel.learning.job import Job
from windtunnel.learning.messages import Message
from windtunnel.learning.state import LearnerState
from windtunnel.learning.tasks.base import Shapes, params_of
from windtunnel.techniques.knobs import Knob


@dataclass(frozen=True, slots=True)
class Boundary:
    """Activations of a micro-batch at a boundary of stages, in bytes whatever the tensors; a `WireFormat`."""

    size_bytes: float

    def nbytes(self, shapes: Shapes) -> float:
        """The same for any model."""
        del shapes
        return self.size_bytes


@dataclass(slots=True)
class Swarm(Composed):
    """Exact gradients, added along the ways that micro-batches took."""

    stages: int = 1
    boundary_bytes: float = 0.0

    @property
    def peers(self) -> int:
        """Peers of a stage."""
        return self.job.workers // self.stages

    def before_step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """Add by stage and peer, then average over micro-batches."""
        n, size = gradients.shape
        for stage in range(self.stages):
            at = slice(size * stage // self.stages, size * (stage + 1) // self.stages)
            way = self.way(stage, step)
            total = np.zeros(at.stop - at.start, gradients.dtype)
            for peer in range(self.peers):
                came = np.flatnonzero(way == peer)
                if len(came):
                    total += gradients[came, at].sum(axis=0)
            gradients[:, at] = total / gradients.dtype.type(n)

    def way(self, stage: int, step: int) -> Ints:
        """The peer of a stage that serves each worker's micro-batch, shape (workers,)."""
        job = self.job
        return job.draws.integers(f"way through stage {stage}", job.everyone, step, 1, self.peers)[:, 0]

    def messages(self, step: int) -> tuple[Message, ...]:
        """A stage's gradients among its peers; activations and their gradients over each boundary."""
        out = []
        if self.peers > 1:
            out.append(
                Message(
                    kind="all_reduce",
                    wire=Cast(32),
                    copies=1.0 / self.stages,
                    after_step=step,
                    needed_by=step + 1,
                    during_backward=True,
                )
            )
        if self.stages > 1 and self.boundary_bytes:
            out.append(
                Message(
                    kind="pairs",
                    wire=Boundary(self.boundary_bytes),
                    copies=2.0 * (self.stages - 1),
                    after_step=step,
                    needed_by=step + 1,
                )
            )
        return tuple(out)


def build(job: Job, knobs: dict[str, Any]) -> Swarm:
    """Peers in equal numbers at all stages."""
    problems = parts.problems_of("swarm")
    stages, entries = knobs["stages"], params_of(job.shapes)
    if job.workers % stages:
        problems.add("stages", stages, f"must divide the {job.workers} workers")
    if stages > entries:
        problems.add("stages", stages, f"the task's model has {entries} entries; allowed: 1 to {entries}")
    problems.raise_if_any()
    return Swarm(job, stages=stages, boundary_bytes=float(knobs["boundary_bytes"]))


ALGORITHMS.add(
    "swarm",
    AlgorithmKind(
        id="swarm",
        summary="pipeline stages served by pools of peers; exact gradients",
        build=build,
        knobs={
            "stages": Knob(1, 1, 100_000, "stages of the pipeline, each served by workers/stages peers"),
            "boundary_bytes": Knob(0.0, 0.0, 1e15, "bytes of a micro-batch's activations at a boundary of the target"),
        },
        family="low-comm",
        source="Ryabinin et al. 2023 (arXiv 2301.11913)",
    ),
)
