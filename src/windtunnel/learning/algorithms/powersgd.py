"""PowerSGD: gradients as products of two thin factors, which all-reduces add; what is left out waits in a memory.

P = orth(Σ M_i Q); Q = ⟨M_iᵀP⟩; every worker steps on P·Qᵀ and keeps e_i = M_i − P·Qᵀ, where M_i is its gradient with
the old e_i. Q starts from the last step's (warm start), so that the steps are a power iteration on the mean gradient.

Source: Vogels et al. 2019 (arXiv 1905.13727), algorithms 1 and 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from windtunnel.arrays import Reals
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.compose import Composed
from windtunnel.learning.compressors.low_rank import Matrix, factor_entries, matrices, orthonormal
from windtunnel.learning.job import Job
from windtunnel.learning.messages import Message
from windtunnel.learning.state import LearnerState
from windtunnel.learning.tasks.base import Shapes
from windtunnel.techniques.knobs import Knob


@dataclass(frozen=True, slots=True)
class FactorWire:
    """Left factors with the tensors that are sent whole, or right factors."""

    rank: int
    side: Literal["left", "right"]
    bits: int = 32

    def nbytes(self, shapes: Shapes) -> float:
        """See `WireFormat.nbytes`."""
        left, right, whole = factor_entries(shapes, self.rank)
        return (left + whole if self.side == "left" else right) * self.bits / 8.0


@dataclass(slots=True)
class PowerSGD(Composed):
    """See the module."""

    rank: int = 2
    warm_start: bool = True
    feedback: float = 1.0

    def start(self, initial: Reals) -> LearnerState:
        """Draws the first Q, the same for all workers."""
        state = Composed.start(self, initial)
        state.residual["gradients"] = np.zeros_like(state.params)
        self._draw(state, 0)
        return state

    def before_step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """Two all-reduces, of P and of Q; see `LockStepAlgorithm.before_step`."""
        if not self.warm_start and step:
            self._draw(state, step)
        kept = state.residual["gradients"]
        gradients += gradients.dtype.type(self.feedback) * kept
        kept[:] = gradients
        for number, m in enumerate(matrices(self.job.shapes, self.rank)):
            gradients[:, m.entries] = self.mean_of(m, gradients[:, m.entries], state.extra, f"q{number}")
        kept -= gradients

    def mean_of(self, m: Matrix, values: Reals, factors: dict[str, Reals], name: str) -> Reals:
        """What all workers step on in place of the mean of a tensor's values, shape (entries,).

        Args:
            m: Where the tensor lies, and its rank.
            values: Of all workers, shape (workers, entries).
            factors: Holds Q by name, shape (columns, rank); the new one replaces it.
            name: Of its Q.
        """
        if not m.rank:
            return np.asarray(values.mean(axis=0))
        each = values.reshape(len(values), m.rows, m.columns)
        p = orthonormal((each @ factors[name]).sum(axis=0))
        q = (each.swapaxes(1, 2) @ p).mean(axis=0)
        factors[name] = q
        return np.asarray(p @ q.T).ravel()

    def messages(self, step: int) -> tuple[Message, ...]:
        """P and whole tensors as the backward makes them, then Q."""
        if self.job.workers == 1:
            return ()
        left, right = FactorWire(self.rank, "left"), FactorWire(self.rank, "right")
        return (
            Message(kind="all_reduce", wire=left, after_step=step, needed_by=step + 1, during_backward=True),
            Message(kind="all_reduce", wire=right, after_step=step, needed_by=step + 1, in_turn=True),
        )

    def _draw(self, state: LearnerState, step: int) -> None:
        for number, m in enumerate(matrices(self.job.shapes, self.rank)):
            if m.rank:
                drawn = self.job.draws.normals(f"powersgd {number}", 0, step, m.columns * m.rank)
                state.extra[f"q{number}"] = drawn.reshape(m.columns, m.rank).astype(state.params.dtype)


def build(job: Job, knobs: dict[str, Any]) -> PowerSGD:
    """Memory and warm start as the paper has them."""
    return PowerSGD(
        job, rank=knobs["rank"], warm_start=knobs["warm_start"], feedback=1.0 if knobs["error_feedback"] else 0.0
    )


ALGORITHMS.add(
    "powersgd",
    AlgorithmKind(
        id="powersgd",
        summary="gradients as products of two thin factors that all-reduces add, with an error memory",
        build=build,
        knobs={
            "rank": Knob(2, 1, 10_000, "columns of a factor"),
            "warm_start": Knob(True, doc="whether Q starts from that of the step before"),
            "error_feedback": Knob(True, doc="whether what is left out is added to the next gradient"),
        },
        family="compression",
        source="Vogels et al. 2019 (arXiv 1905.13727), algorithms 1 and 2",
    ),
)
