"""An algorithm composed of slots: how gradients are exchanged in a step, and parameters at the end of a round.

Slots (x worker, a anchor, D = mean of a − x): *when* a round ends, *parts* of the model in turn, the *compressor*
with its feedback, *who* takes part, how *late* the exchange is merged, *merge* of what comes back with what the worker
has become, and the *outer* optimizer. An algorithm's file is a choice of slots and at most one method that differs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod

import numpy as np

from windtunnel.arrays import Ints, Reals
from windtunnel.learning.compressors.base import Compressor
from windtunnel.learning.job import Job
from windtunnel.learning.messages import WHOLE, Fragment, Kind, Message
from windtunnel.learning.outer.base import OuterOptimizer
from windtunnel.learning.state import LearnerState, started

Participants = Callable[[Job, int], Ints]
"""(job, round) → numbers of the workers that take part, ascending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientExchange:
    """Gradients are averaged in every step, before the inner optimizer."""

    compressor: Compressor
    feedback: float = 0.0
    """Share of what a message leaves out that is added to the next one; 0: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterExchange:
    """Differences to the anchor are averaged at the end of a round."""

    compressor: Compressor
    outer: OuterOptimizer
    period: int | Callable[[int], bool] = 1
    """Local steps of a round, or a rule: local step → whether a round ends with it."""
    fragments: int = 1
    """Parts of the model that are exchanged in turn, each once a round, spread evenly over it."""
    late: int = 0
    """Local steps between sending and merging (`overlap` of Streaming DiLoCo); 0: the workers wait."""
    local_share: float = 0.0
    """α: share of the worker's own parameters that stays when the outer parameters come back."""
    feedback: float = 0.0
    """Share of what a message leaves out that is added to the next one; 0: none."""
    who: Participants | None = None
    """Workers of each round; None: all."""
    states: tuple[str, ...] = ()
    """Inner states that are averaged with the parameters (local Adam: `m`, `v`)."""


@dataclass(slots=True)
class Composed:
    """A `LockStepAlgorithm` from slots."""

    job: Job
    gradients: GradientExchange | None = None
    parameters: ParameterExchange | None = None
    _sent: dict[int, Reals] = field(default_factory=dict)
    """Fragment → pseudo-gradient on its way, shape (1, entries)."""
    _rounds: dict[int, int] = field(default_factory=dict)
    _slices: list[Ints] = field(default_factory=list)

    def start(self, initial: Reals) -> LearnerState:
        """See `LockStepAlgorithm.start`."""
        state = started(initial, self.job.workers)
        state.inner = {name: np.zeros_like(state.params) for name in self.job.inner.states}
        if self.parameters is not None:
            state.anchor = initial[None, :].copy()
            state.outer = {name: np.zeros_like(state.anchor) for name in self.parameters.outer.states}
            self._slices = fragment_entries(self.job, self.parameters.fragments)
        self._sent.clear()
        self._rounds.clear()
        return state

    def before_step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """See `LockStepAlgorithm.before_step`."""
        exchange = self.gradients
        if exchange is None or self.job.workers == 1:
            return
        sent = self._sent_with_feedback(state, "gradients", gradients, exchange, step)
        gradients[:] = sent.mean(axis=0)

    def step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """See `LockStepAlgorithm.step`."""
        self.job.inner.step(state.params, gradients, state.inner, self.job.lr.at(step), step)

    def after_step(self, state: LearnerState, step: int) -> None:
        """See `LockStepAlgorithm.after_step`."""
        if self.parameters is None:
            return
        due = self.fragment_due(step)
        if due is not None:
            self.send(state, due, step)
        late = self.parameters.late
        if late and step >= late and (back := self.fragment_due(step - late)) is not None:
            self.merge(state, back)
        elif not late and due is not None:
            self.merge(state, due)

    def fragment_due(self, step: int) -> int | None:
        """The fragment that is sent at the end of a local step, None where nothing is."""
        p = self.parameters
        if p is None:
            return None
        if callable(p.period):
            return 0 if p.period(step) else None
        apart = p.period // p.fragments
        if (step + 1) % apart:
            return None
        return ((step + 1) // apart - 1) % p.fragments

    def send(self, state: LearnerState, fragment: int, step: int) -> None:
        """Average the differences of a fragment to its anchor; they stay on their way until `merge`."""
        p = self.parameters
        assert p is not None and state.anchor is not None
        at = self._slices[fragment]
        difference = state.anchor[:, at] - state.params[:, at]
        name = f"parameters{fragment}"
        sent = self._sent_with_feedback(state, name, difference, p, step, fragment)
        who = self.job.everyone if p.who is None else p.who(self.job, self._rounds.get(fragment, 0))
        self._sent[fragment] = sent[who].mean(axis=0, keepdims=True)
        for moment in p.states:
            state.inner[moment][:, at] = state.inner[moment][:, at].mean(axis=0)

    def merge(self, state: LearnerState, fragment: int) -> None:
        """Step the outer optimizer on what was sent, and give workers the outer parameters."""
        p = self.parameters
        assert p is not None and state.anchor is not None
        at = self._slices[fragment]
        anchor = state.anchor[:, at]
        outer = {name: values[:, at] for name, values in state.outer.items()}
        p.outer.step(anchor, self._sent.pop(fragment), outer, self._rounds.get(fragment, 0))
        self._rounds[fragment] = self._rounds.get(fragment, 0) + 1
        state.anchor[:, at] = anchor
        for name, values in outer.items():
            state.outer[name][:, at] = values
        if p.local_share:
            own = state.params.dtype.type(p.local_share)
            state.params[:, at] = own * state.params[:, at] + (1 - own) * anchor
        else:
            state.params[:, at] = anchor

    def messages(self, step: int) -> tuple[Message, ...]:
        """See `LockStepAlgorithm.messages`."""
        out = []
        if self.gradients is not None and self.job.workers > 1:
            wire = self.gradients.compressor
            out.append(
                Message(kind=_collective(wire), wire=wire, after_step=step, needed_by=step + 1, during_backward=True)
            )
        fragment = self.fragment_due(step)
        p = self.parameters
        if p is not None and fragment is not None:
            out.append(
                Message(
                    kind=_collective(p.compressor),
                    wire=p.compressor,
                    copies=1.0 + len(p.states),
                    fragment=Fragment(fragment, p.fragments) if p.fragments > 1 else WHOLE,
                    after_step=step,
                    needed_by=step + 1 + p.late,
                )
            )
        return tuple(out)

    def reported(self, state: LearnerState) -> Reals:
        """See `LockStepAlgorithm.reported`: the anchor where there is one, else the mean of the workers."""
        return state.anchor if state.anchor is not None else state.params.mean(axis=0, keepdims=True)

    def _sent_with_feedback(
        self,
        state: LearnerState,
        name: str,
        values: Reals,
        exchange: GradientExchange | ParameterExchange,
        step: int,
        fragment: int = 0,
    ) -> Reals:
        """What receivers get of each row, with what earlier messages left out added first."""
        shapes = self._shapes(exchange, fragment)
        if exchange.feedback:
            kept = state.residual.setdefault(name, np.zeros_like(values))
            values = values + kept * values.dtype.type(exchange.feedback)
        sent = exchange.compressor.decoded(values, shapes, self.job.draws, self.job.everyone, step)
        if exchange.feedback:
            state.residual[name] = values - sent
        return sent

    def _shapes(self, exchange: GradientExchange | ParameterExchange, fragment: int) -> tuple[tuple[int, ...], ...]:
        if isinstance(exchange, GradientExchange) or exchange.fragments == 1:
            return self.job.shapes
        part = Fragment(fragment, exchange.fragments)
        return part.shapes(self.job.shapes)


def fragment_entries(job: Job, fragments: int) -> list[Ints]:
    """Entries of each fragment in a flat vector: every `fragments`-th tensor."""
    ends = np.cumsum([prod(shape) for shape in job.shapes])
    starts = np.concatenate([[0], ends[:-1]])
    return [
        np.concatenate([np.arange(a, b) for a, b in zip(starts[i::fragments], ends[i::fragments], strict=True)])
        for i in range(fragments)
    ]


def _collective(compressor: Compressor) -> Kind:
    """Sums of encodings travel through an all-reduce; other encodings are gathered."""
    return "all_reduce" if compressor.linear else "all_gather"
