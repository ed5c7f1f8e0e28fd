"""NoLoCo: no all-reduce; at the end of a round, pairs drawn anew exchange anchors and differences.

b ← μb + ν⟨x − a⟩₂ + γ(⟨a⟩₂ − a); a ← a + b; x ← a, where ⟨·⟩₂ is the mean of a pair.

Source: Kolehmainen et al. 2025 (arXiv 2506.10911); public code: gensyn-ai/noloco at a1b4a42, which
weighs the last term with ν.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from windtunnel.arrays import Ints, Reals
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.compressors.cast import Cast
from windtunnel.learning.job import Job
from windtunnel.learning.messages import Message
from windtunnel.learning.state import LearnerState, started
from windtunnel.techniques.knobs import Knob


@dataclass(slots=True)
class NoLoCo:
    """A `LockStepAlgorithm` whose workers have anchors of their own."""

    job: Job
    period: int
    outer_lr: float
    momentum: float
    mixing_weight: float
    wire: Cast

    def start(self, initial: Reals) -> LearnerState:
        """See `LockStepAlgorithm.start`."""
        state = started(initial, self.job.workers)
        state.inner = {name: np.zeros_like(state.params) for name in self.job.inner.states}
        state.anchor = state.params.copy()
        state.outer = {"momentum": np.zeros_like(state.params)}
        return state

    def before_step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """Gradients stay with their workers."""

    def step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """See `LockStepAlgorithm.step`."""
        self.job.inner.step(state.params, gradients, state.inner, self.job.lr.at(step), step)

    def after_step(self, state: LearnerState, step: int) -> None:
        """See `LockStepAlgorithm.after_step`."""
        if (step + 1) % self.period:
            return
        assert state.anchor is not None
        partner = self.partners(step // self.period)
        one = state.params.dtype.type
        anchor, b = state.anchor, state.outer["momentum"]
        moved = state.params - anchor
        sent_anchor, sent = (self._received(values, step) for values in (anchor, moved))
        b *= one(self.momentum)
        b += one(0.5 * self.outer_lr) * (moved + sent[partner])
        b += one(0.5 * self.mixing_weight) * (sent_anchor[partner] - anchor)
        anchor += b
        state.params[:] = anchor

    def partners(self, round_number: int) -> Ints:
        """Each worker's partner in a round, shape (workers,); the last of an odd number stays alone."""
        n = self.job.workers
        order = self.job.draws.order("pairs", round_number, n)
        out = np.arange(n)
        first, second = order[: n // 2 * 2 : 2], order[1 : n // 2 * 2 : 2]
        out[first], out[second] = second, first
        return out

    def messages(self, step: int) -> tuple[Message, ...]:
        """An anchor and a difference to one partner."""
        if (step + 1) % self.period or self.job.workers == 1:
            return ()
        return (Message(kind="pairs", wire=self.wire, copies=2.0, after_step=step, needed_by=step + 1),)

    def reported(self, state: LearnerState) -> Reals:
        """The mean of the anchors."""
        assert state.anchor is not None
        return np.asarray(state.anchor.mean(axis=0, keepdims=True))

    def _received(self, values: Reals, step: int) -> Reals:
        job = self.job
        return self.wire.decoded(values, job.shapes, job.draws, job.everyone, step)


def build(job: Job, knobs: dict[str, Any]) -> NoLoCo:
    """Rounds of `period` steps."""
    weight = knobs["mixing_weight"]
    return NoLoCo(
        job=job,
        period=knobs["period"],
        outer_lr=knobs["outer_lr"],
        momentum=knobs["outer_momentum"],
        mixing_weight=knobs["outer_lr"] if weight is None else weight,
        wire=Cast(knobs["bits"]),
    )


ALGORITHMS.add(
    "noloco",
    AlgorithmKind(
        id="noloco",
        summary="local steps, then means of pairs that are drawn anew each round",
        build=build,
        knobs={
            "period": Knob(100, 1, 1_000_000, "H: local steps of a round"),
            "outer_lr": Knob(0.7, 0.0, 10.0, "ν: outer learning rate"),
            "outer_momentum": Knob(0.3, 0.0, 0.999999, "μ: outer momentum"),
            "mixing_weight": Knob(
                None, 0.0, 10.0, "γ: pull towards the partner's anchor; absent: ν, as the public code"
            ),
            "bits": Knob(32, choices=(16, 32, 64), doc="bits of a value on its way"),
        },
        family="low-comm",
        source="Kolehmainen et al. 2025 (arXiv 2506.10911)",
        deviates="the public code (a1b4a42) has one weight for both terms, the paper γ of its own: `mixing_weight`",
    ),
)
