"""QSDP: sharded data parallelism whose weights are gathered from a randomly shifted lattice, gradients in few bits.

Every step gathers the weights twice, for forward and backward, and reduce-scatters gradients; workers compute at what
they gathered. Shards stay in full precision with their owners (the implementation), or only lattice points are kept
(the theory, which proves convergence to the optimum over a coarser lattice).

Source: Markov et al. 2023 (arXiv 2302.02390), algorithm 1 and theorem 2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Reals
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.compose import Composed
from windtunnel.learning.compressors.lattice_shift import LatticeShift
from windtunnel.learning.compressors.quantised import Quantised
from windtunnel.learning.job import Job
from windtunnel.learning.messages import Message, WireFormat
from windtunnel.learning.state import LearnerState
from windtunnel.learning.tasks.base import Shapes, Task
from windtunnel.techniques.knobs import Knob


@dataclass(frozen=True, slots=True)
class Shard:
    """One worker's share of an encoding."""

    whole: WireFormat
    workers: int

    def nbytes(self, shapes: Shapes) -> float:
        """See `WireFormat.nbytes`."""
        return self.whole.nbytes(shapes) / self.workers


@dataclass(slots=True)
class QSDP(Composed):
    """See the module."""

    weights: LatticeShift = field(default_factory=LatticeShift)
    quantised_gradients: Quantised = field(default_factory=Quantised)
    keep: str = "full"

    def own_gradients(self, task: Task, state: LearnerState, step: int, out: Reals) -> Floats:
        """Gradients at the gathered weights; see `TakesOwnGradients`."""
        job = self.job
        gathered = self.weights.decoded(state.params[:1], job.shapes, job.draws, np.zeros(1, np.int64), step)
        rows = np.repeat(gathered, job.workers, axis=0)
        if self.keep == "lattice":
            state.params[:] = rows
        return task.gradients(rows, job.everyone, np.full(job.workers, step), out)

    def before_step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """Mean of the quantised gradients."""
        job = self.job
        sent = self.quantised_gradients.decoded(gradients, job.shapes, job.draws, job.everyone, step)
        gradients[:] = sent.mean(axis=0)

    def messages(self, step: int) -> tuple[Message, ...]:
        """Gradients scattered as the backward makes them, and weights gathered for the next forward and backward."""
        n = self.job.workers
        if n == 1:
            return ()
        shard = Shard(self.weights, n)
        gather = Message(kind="all_gather", wire=shard, after_step=step, needed_by=step + 1, during_forward=True)
        scatter = Message(
            kind="reduce_scatter",
            wire=self.quantised_gradients,
            after_step=step,
            needed_by=step + 1,
            during_backward=True,
        )
        return scatter, gather, gather


def build(job: Job, knobs: dict[str, Any]) -> QSDP:
    """Weights on a lattice, gradients with stochastic rounding at the largest magnitude of a block."""
    return QSDP(
        job,
        weights=LatticeShift(knobs["weight_bits"], knobs["block"]),
        quantised_gradients=Quantised(knobs["gradient_bits"], scale="max", block=knobs["block"]),
        keep=knobs["keep"],
    )


ALGORITHMS.add(
    "qsdp",
    AlgorithmKind(
        id="qsdp",
        summary="sharded data parallelism: weights gathered from a shifted lattice, gradients in few bits",
        build=build,
        knobs={
            "weight_bits": Knob(8, 2, 8, "bits of a weight"),
            "gradient_bits": Knob(8, 2, 8, "bits of a gradient"),
            "block": Knob(1024, 0, 10**9, "entries that share a scale; 0: a tensor"),
            "keep": Knob("full", choices=("full", "lattice"), doc="what shards keep between steps"),
        },
        family="compression",
        source="Markov et al. 2023 (arXiv 2302.02390), algorithm 1",
        deviates="the implementation keeps shards in full precision (`keep: full`), the theory only lattice points",
    ),
)
