"""1-bit Adam: Adam until its variance is trusted, then momentum in one bit an entry, with errors kept on both sides.

After the warm-up v stays as it is. Each worker sends the sign of m_i + e_i with one scale; a server (one for each part
of the vector, as in a reduce-scatter) averages, adds its own error, and sends the sign of that back as everybody's m.

Source: Tang et al. 2021 (arXiv 2102.02888), algorithm 1; DeepSpeed's `OnebitAdam` and its compressed all-reduce.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any

import numpy as np

from windtunnel.arrays import Reals
from windtunnel.errors import BadInput, Problem
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.compose import Composed
from windtunnel.learning.compressors.cast import Cast
from windtunnel.learning.compressors.sign import Sign
from windtunnel.learning.inner.adamw import AdamW
from windtunnel.learning.job import Job
from windtunnel.learning.messages import Message
from windtunnel.learning.state import LearnerState
from windtunnel.learning.tasks.base import Shapes, params_of
from windtunnel.techniques.knobs import Knob

_WHOLE = 10**9
"""Entries of a block that is any vector."""


@dataclass(frozen=True, slots=True)
class ServerPart:
    """What one of `workers` servers sends back: the signs of its part, and their scale."""

    workers: int

    def nbytes(self, shapes: Shapes) -> float:
        """See `WireFormat.nbytes`."""
        return params_of(shapes) / self.workers / 8.0 + 4.0


@dataclass(slots=True)
class OneBitAdam(Composed):
    """See the module. `inner` states: m, the same for all workers after each step, and v."""

    warmup_steps: int = 0
    scale: str = "l2"
    bias_correction: bool = False
    warmup_bits: int = 16
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8

    def start(self, initial: Reals) -> LearnerState:
        """Errors start at zero."""
        state = Composed.start(self, initial)
        state.residual["worker"] = np.zeros_like(state.params)
        state.residual["server"] = np.zeros((1, state.params.shape[1]), state.params.dtype)
        return state

    def before_step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """Gradients are averaged during the warm-up alone."""
        if step < self.warmup_steps:
            wire = Cast(self.warmup_bits)
            gradients[:] = wire.decoded(gradients, self.job.shapes, self.job.draws, self.job.everyone, step).mean(
                axis=0
            )

    def step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """Adam, or momentum through one bit over the variance of the warm-up."""
        one = state.params.dtype.type
        m, v = state.inner["m"], state.inner["v"]
        m *= one(self.beta1)
        m += one(1.0 - self.beta1) * gradients
        if step < self.warmup_steps:
            v *= one(self.beta2)
            v += one(1.0 - self.beta2) * np.square(gradients)
        else:
            m[:] = self.exchanged(state, m, step)
        first, second = 1.0, 1.0
        if self.bias_correction:
            first = 1.0 - self.beta1 ** (step + 1)
            second = 1.0 - self.beta2 ** min(step + 1, max(1, self.warmup_steps))
        root = np.sqrt(v)
        root /= one(sqrt(second))
        root += one(self.eps)
        state.params -= one(self.job.lr.at(step) / first) * m / root

    def exchanged(self, state: LearnerState, momentum: Reals, step: int) -> Reals:
        """Everybody's new momentum, shape (1, params), from each worker's, shape (workers, params)."""
        job = self.job
        sent = momentum + state.residual["worker"]
        arrived = self.worker_wire.decoded(sent, job.shapes, job.draws, job.everyone, step)
        state.residual["worker"] = sent - arrived
        mean = arrived.mean(axis=0, keepdims=True) + state.residual["server"]
        back = self.server_wire.decoded(mean, job.shapes, job.draws, np.zeros(1, np.int64), step)
        state.residual["server"] = mean - back
        return back

    @property
    def worker_wire(self) -> Sign:
        """One scale for the whole vector."""
        return Sign(scale=self.scale, block=_WHOLE)

    @property
    def server_wire(self) -> Sign:
        """One scale for each server's part."""
        return Sign(scale=self.scale, block=ceil(params_of(self.job.shapes) / self.job.workers))

    def messages(self, step: int) -> tuple[Message, ...]:
        """An all-reduce in the warm-up; then every worker's part to its server, and all parts back.

        Signs do not add on their way: the reduce-scatter is DeepSpeed's all-to-all, which has the same bytes.
        """
        if self.job.workers == 1:
            return ()
        if step < self.warmup_steps:
            wire = Cast(self.warmup_bits)
            return (Message(kind="all_reduce", wire=wire, after_step=step, needed_by=step + 1, during_backward=True),)
        return (
            Message(kind="reduce_scatter", wire=self.worker_wire, after_step=step, needed_by=step + 1),
            Message(kind="all_gather", wire=ServerPart(self.job.workers), after_step=step, needed_by=step + 1),
        )


def build(job: Job, knobs: dict[str, Any]) -> OneBitAdam:
    """Betas and epsilon are those of the inner optimizer, which has to be Adam without weight decay."""
    inner = job.inner
    if not isinstance(inner, AdamW) or inner.weight_decay:
        name = type(inner).__name__.lower()
        rule = "the inner optimizer has to be adamw with weight_decay 0: its variance is what the method freezes"
        raise BadInput(Problem("learning.algorithms.one-bit-adam", rule, name))
    return OneBitAdam(
        job,
        warmup_steps=max(1, round(knobs["warmup"] * job.steps)),
        scale=knobs["scale"],
        bias_correction=knobs["bias_correction"],
        warmup_bits=knobs["warmup_bits"],
        beta1=inner.beta1,
        beta2=inner.beta2,
        eps=inner.eps,
    )


ALGORITHMS.add(
    "one-bit-adam",
    AlgorithmKind(
        id="one-bit-adam",
        summary="Adam, then its momentum in one bit an entry over a frozen variance, with errors kept on both sides",
        build=build,
        knobs={
            "warmup": Knob(0.15, 0.0, 1.0, "share of the steps that are plain Adam"),
            "scale": Knob("l2", choices=("l1", "l2"), doc="of signs: mean magnitude, or norm over root of entries"),
            "bias_correction": Knob(False, doc="whether moments are divided by 1 − β^t, as Adam's paper has it"),
            "warmup_bits": Knob(16, choices=(16, 32, 64), doc="bits of a gradient during the warm-up"),
        },
        family="compression",
        source="Tang et al. 2021 (arXiv 2102.02888), algorithm 1",
        deviates="DeepSpeed scales signs by the l2 norm over √n (`scale: l2`; the l1 mean leaves less) and corrects no "
        "bias (`bias_correction: false`)",
    ),
)
