"""An algorithm composed of slots: how gradients are exchanged in a step, and parameters at the end of a round.

Slots (x worker, a anchor, D = mean of a − x): *when* a round ends, *parts* of the model in turn, the *compressor*
with its feedback, *via* which collective, *who* takes part, how *late* the exchange is merged, what *share* of its own
parameters a worker keeps, and the *outer* optimizer. An algorithm's file is a choice of slots and at most a few methods
that differ.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Literal

import numpy as np

from windtunnel.arrays import Ints, Mask, Reals
from windtunnel.learning.compressors.base import Compressor
from windtunnel.learning.compressors.cast import Cast
from windtunnel.learning.job import Job
from windtunnel.learning.messages import WHOLE, Fragment, Kind, Message
from windtunnel.learning.outer.base import OuterOptimizer
from windtunnel.learning.state import LearnerState, started

Participants = Callable[[Job, int], Ints]
"""(job, round) → numbers of the workers that take part, ascending."""

Via = Literal["all_reduce", "all_gather", "ring"]
"""all_reduce: encodings are added on their way, which asks for a linear compressor. all_gather: every worker decodes
all encodings. ring: a ring all-reduce that decodes, adds and encodes again at every hop."""

_PLAIN = Cast(32)

Entries = slice | Ints
"""Where a fragment lies in a flat vector: a slice where it is contiguous."""


@dataclass(frozen=True, slots=True)
class Every:
    """A round each `period` local steps, in which fragments are sent in turn, spread evenly over it."""

    period: int
    fragments: int = 1
    lead: int = 0
    """Local steps by which a fragment is sent before its place in the round."""

    def due(self, step: int) -> int | None:
        """The fragment that is sent at the end of a local step (counted from 0), None where nothing is."""
        into = (step + self.lead) % self.period + 1
        if self.fragments == 1:
            return 0 if into == self.period else None
        fragment = (into * self.fragments - 1) // self.period
        return fragment if (fragment + 1) * self.period // self.fragments == into else None


@dataclass(frozen=True, slots=True)
class At:
    """Rounds that end with the local steps listed."""

    steps: frozenset[int]

    def due(self, step: int) -> int | None:
        """0 where a round ends with the step, else None."""
        return 0 if step in self.steps else None


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientExchange:
    """Gradients are averaged in every step, before the inner optimizer."""

    compressor: Compressor
    feedback: float = 0.0
    """Share of what a message leaves out that is added to the next one; 0: none."""
    via: Via | None = None
    """None: an all-reduce where the compressor is linear, else an all-gather."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateExchange:
    """A state of the inner optimizer is averaged every `period` local steps, or at the end of those listed."""

    name: str
    period: int | At
    compressor: Compressor = _PLAIN

    def due(self, step: int) -> bool:
        """Whether it is averaged at the end of a local step, counted from 0."""
        return step in self.period.steps if isinstance(self.period, At) else (step + 1) % self.period == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterExchange:
    """Differences to the anchor are averaged at the end of a round."""

    compressor: Compressor
    outer: OuterOptimizer
    period: int | At = 1
    """Local steps of a round, or the steps that rounds end with."""
    fragments: int = 1
    """Parts of the model that are exchanged in turn, each once a round, spread evenly over it."""
    late: int = 0
    """Local steps between sending and merging (`overlap` of Streaming DiLoCo); 0: the workers wait."""
    lead: bool = False
    """Whether a fragment is sent `late` steps before its place in the round and merged there, as torchft does; else
    it is sent there and merged afterwards."""
    layerwise: bool = False
    """Whether each layer leaves as soon as the last backward of the round has passed it, next to the rest of it; else
    all leave at the end of the step. It changes the clock alone."""
    local_share: float = 0.0
    """α: share of the worker's own parameters that stays when the outer parameters come back."""
    feedback: float = 0.0
    """Share of what a message leaves out that is added to the next one; 0: none."""
    via: Via | None = None
    """None: an all-reduce where the compressor is linear, else an all-gather."""
    who: Participants | None = None
    """Workers whose differences count, by round; None: all. Every worker receives the outer parameters."""
    drop: float = 0.0
    """Probability that a worker's difference is lost, drawn for each message: the worker goes on from where it is."""
    states: tuple[StateExchange, ...] = ()
    """Inner states that are averaged as well (local Adam: `m`, `v`)."""
    evaluate: Literal["anchor", "mean"] = "anchor"
    """Which parameters are evaluated: those of the last round, or the mean of the workers now."""

    @property
    def schedule(self) -> Every | At:
        """When which fragment is sent."""
        if isinstance(self.period, At):
            return self.period
        return Every(self.period, self.fragments, self.late if self.lead else 0)


@dataclass(slots=True)
class OnTheWay:
    """What was sent and is not merged yet."""

    mean: Reals | None
    """D of the fragment, shape (1, entries); None where every difference was lost."""
    heard: Mask | None = None
    """Workers whose difference arrived, shape (workers,); None: all."""
    rows: Reals | None = None
    """Each worker's own difference as it was received, where `keep_rows` asks for it, shape (workers, entries)."""
    anchor: Reals | None = None
    """The anchor that the differences start from, where `keep_rows` asks for it, shape (rows, entries)."""


@dataclass(slots=True)
class Composed:
    """A `LockStepAlgorithm` from slots."""

    job: Job
    gradients: GradientExchange | None = None
    parameters: ParameterExchange | None = None
    clip: float = 0.0
    """Largest magnitude of an entry of a gradient, cut before anything else; 0: none."""
    keep_rows: bool = False
    """Whether `OnTheWay` carries `rows` and `anchor`."""
    _queue: dict[int, deque[OnTheWay]] = field(default_factory=dict)
    _rounds: dict[int, int] = field(default_factory=dict)
    _entries: list[Entries] = field(default_factory=list)

    # -- `LockStepAlgorithm`

    def start(self, initial: Reals) -> LearnerState:
        """See `LockStepAlgorithm.start`."""
        state = started(initial, self.job.workers)
        state.inner = {name: np.zeros_like(state.params) for name in self.job.inner.states}
        if self.parameters is not None:
            state.anchor = initial[None, :].copy()
            state.outer = {name: np.zeros_like(state.anchor) for name in self.parameters.outer.states}
            self._entries = fragment_entries(self.job, self.parameters.fragments)
        self._queue.clear()
        self._rounds.clear()
        return state

    def before_step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """See `LockStepAlgorithm.before_step`."""
        if self.clip:
            np.clip(gradients, -self.clip, self.clip, out=gradients)
        exchange = self.gradients
        if exchange is None or self.job.workers == 1:
            return
        received = self.received(state, "gradients", gradients, exchange, self.job.shapes, step)
        gradients[:] = received.mean(axis=0)

    def step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """See `LockStepAlgorithm.step`."""
        self.job.inner.step(state.params, gradients, state.inner, self.job.lr.at(step), step)

    def after_step(self, state: LearnerState, step: int) -> None:
        """See `LockStepAlgorithm.after_step`."""
        p = self.parameters
        if p is None:
            return
        for exchange in p.states:
            if exchange.due(step):
                self._average_state(state, exchange, step)
        schedule = p.schedule
        due = schedule.due(step)
        if due is not None:
            self.send(state, due, step)
        if p.late:
            due = schedule.due(step - p.late) if step >= p.late else None
        if due is not None:
            self.merge(state, due)

    def messages(self, step: int) -> tuple[Message, ...]:
        """See `LockStepAlgorithm.messages`."""
        out = []
        if self.gradients is not None and self.job.workers > 1:
            wire = self.gradients.compressor
            kind = collective(wire, self.gradients.via)
            out.append(Message(kind=kind, wire=wire, after_step=step, needed_by=step + 1, during_backward=True))
        p = self.parameters
        if p is None or self.job.workers == 1:
            return tuple(out)
        due = p.schedule.due(step)
        states = [x for x in p.states if x.due(step)]
        if due is not None:
            part = Fragment(due, p.fragments) if p.fragments > 1 else WHOLE
            along = [x for x in states if x.compressor == p.compressor and part is WHOLE and not p.late]
            states = [x for x in states if x not in along]
            out.append(
                Message(
                    kind=collective(p.compressor, p.via),
                    wire=p.compressor,
                    copies=1.0 + len(along),
                    fragment=part,
                    after_step=step,
                    needed_by=step + 1 + p.late,
                    during_backward=p.layerwise,
                    participants=self._participants(step),
                )
            )
        for wire in dict.fromkeys(x.compressor for x in states):
            copies = float(sum(x.compressor == wire for x in states))
            message = Message(
                kind=collective(wire, None), wire=wire, copies=copies, after_step=step, needed_by=step + 1
            )
            out.append(message)
        return tuple(out)

    def reported(self, state: LearnerState) -> Reals:
        """See `LockStepAlgorithm.reported`: the anchor where there is one, else the mean of the workers."""
        p = self.parameters
        rows = state.params if state.anchor is None or (p and p.evaluate == "mean") else state.anchor
        return rows if len(rows) == 1 else rows.mean(axis=0, keepdims=True)

    # -- the round

    def send(self, state: LearnerState, fragment: int, step: int) -> None:
        """Average the differences of a fragment to its anchor; they stay on their way until `merge`."""
        p = self.parameters
        assert p is not None and state.anchor is not None
        at = self._entries[fragment]
        anchor = state.anchor[:, at]
        difference = anchor - state.params[:, at]
        heard = self._heard(step)
        name = f"parameters{fragment}"
        before = state.residual[name][~heard] if heard is not None and name in state.residual else 0.0
        received = self.received(state, name, difference, p, self.shapes_of(fragment), step)
        if heard is not None and name in state.residual:  # nothing was sent, so nothing was left out
            state.residual[name][~heard] = before
        sent = OnTheWay(self._mean(received, heard, self._rounds.get(fragment, 0)), heard)
        if self.keep_rows:
            sent.rows, sent.anchor = received, anchor.copy()
        self._queue.setdefault(fragment, deque()).append(sent)
        self._rounds[fragment] = self._rounds.get(fragment, 0) + 1

    def merge(self, state: LearnerState, fragment: int) -> None:
        """Step the outer optimizer on what was sent first, and give workers the outer parameters."""
        came = self._queue[fragment].popleft()
        if came.mean is not None:
            self.outer_step(state, fragment, came.mean)
            self.give(state, fragment, came.heard)

    def outer_step(self, state: LearnerState, fragment: int, difference: Reals) -> None:
        """Move the anchor of a fragment along a pseudo-gradient, shape (rows of the anchor, entries)."""
        p = self.parameters
        assert p is not None and state.anchor is not None
        at = self._entries[fragment]
        merged = self._rounds.get(fragment, 0) - 1 - len(self._queue[fragment])
        anchor = state.anchor[:, at]
        outer = {name: values[:, at] for name, values in state.outer.items()}
        p.outer.step(anchor, difference, outer, merged)
        if not isinstance(at, slice):  # index arrays copy
            state.anchor[:, at] = anchor
            for name, values in outer.items():
                state.outer[name][:, at] = values

    def give(self, state: LearnerState, fragment: int, heard: Mask | None) -> None:
        """Workers take the outer parameters, and keep `local_share` of their own."""
        p = self.parameters
        assert p is not None and state.anchor is not None
        at = self._entries[fragment]
        anchor = state.anchor[:, at]
        if p.local_share:
            one = state.params.dtype.type
            anchor = one(p.local_share) * state.params[:, at] + one(1.0 - p.local_share) * anchor
        if heard is None:
            state.params[:, at] = anchor
        else:
            state.params[:, at] = np.where(heard[:, None], anchor, state.params[:, at])

    def received(
        self,
        state: LearnerState,
        name: str,
        values: Reals,
        exchange: GradientExchange | ParameterExchange,
        shapes: tuple[tuple[int, ...], ...],
        step: int,
    ) -> Reals:
        """What receivers make of each worker's values, with what earlier messages left out added first.

        Args:
            state: Whose `residual` of this name is read and written.
            name: Of the exchange.
            values: Shape (workers, entries); not changed.
            exchange: Compressor and feedback.
            shapes: Of the tensors in `values`.
            step: Of the message.

        Returns:
            Shape (workers, entries), or (1, entries) where the collective itself gives the mean (`ring`); `values`
            themselves where nothing is lost on the way.
        """
        if is_plain(exchange.compressor):
            return values
        if exchange.via == "ring":
            who = None if isinstance(exchange, GradientExchange) or exchange.who is None else exchange.who
            among = None if who is None else who(self.job, self._rounds.get(0, 0))
            return (
                values[:0]
                if among is not None and not len(among)
                else ring_mean(values, exchange.compressor, self.job, step, among)
            )
        kept = state.residual.get(name) if exchange.feedback else None
        if kept is not None:
            kept *= values.dtype.type(exchange.feedback)
            kept += values
            values = kept
        out = exchange.compressor.decoded(values, shapes, self.job.draws, self.job.everyone, step)
        if exchange.feedback:
            state.residual[name] = np.subtract(values, out, out=kept)
        return out

    def shapes_of(self, fragment: int) -> tuple[tuple[int, ...], ...]:
        """Shapes of the tensors of a fragment of the proxy."""
        p = self.parameters
        whole = p is None or p.fragments == 1
        return self.job.shapes if whole or p is None else Fragment(fragment, p.fragments).shapes(self.job.shapes)

    def _average_state(self, state: LearnerState, exchange: StateExchange, step: int) -> None:
        values = state.inner[exchange.name]
        if not is_plain(exchange.compressor):
            job = self.job
            values[:] = exchange.compressor.decoded(values, job.shapes, job.draws, job.everyone, step)
        values[:] = values.mean(axis=0)

    def _heard(self, step: int) -> Mask | None:
        """Workers whose difference is not lost; None: all."""
        p = self.parameters
        assert p is not None
        if not p.drop:
            return None
        drawn = self.job.draws.uniforms("outer gradient lost", self.job.everyone, step, 1)[:, 0]
        return np.asarray(drawn >= p.drop)

    def _mean(self, received: Reals, heard: Mask | None, round_number: int) -> Reals | None:
        """Mean over those that take part and are heard, shape (1, entries)."""
        p = self.parameters
        assert p is not None
        if p.who is not None and not (p.via == "ring" and not is_plain(p.compressor)):  # a ring has them alone
            chosen = p.who(self.job, round_number)
            chosen = chosen if heard is None else chosen[heard[chosen]]
            received = received[chosen]
        elif heard is not None:
            received = received[heard]
        return received.mean(axis=0, keepdims=True) if len(received) else None

    def _participants(self, step: int) -> tuple[int, ...]:
        p = self.parameters
        if p is None or p.who is None or isinstance(p.period, At):
            return ()
        return tuple(int(i) for i in p.who(self.job, step // p.period))


def fragment_entries(job: Job, fragments: int) -> list[Entries]:
    """Entries of each fragment in a flat vector: every `fragments`-th tensor."""
    ends = np.cumsum([prod(shape) for shape in job.shapes])
    starts = np.concatenate([[0], ends[:-1]])
    out: list[Entries] = []
    for i in range(fragments):
        first, last = starts[i::fragments], ends[i::fragments]
        if (first[1:] == last[:-1]).all():
            out.append(slice(int(first[0]), int(last[-1])))
        else:
            out.append(np.concatenate([np.arange(a, b) for a, b in zip(first, last, strict=True)]))
    return out


def collective(compressor: Compressor, via: Via | None) -> Kind:
    """The collective that carries encodings."""
    if via is None:
        return "all_reduce" if compressor.linear else "all_gather"
    return "all_gather" if via == "all_gather" else "all_reduce"


def is_plain(compressor: Compressor) -> bool:
    """Whether values arrive as they are."""
    return isinstance(compressor, Cast) and compressor.bits > 16


def ring_mean(values: Reals, compressor: Compressor, job: Job, step: int, among: Ints | None = None) -> Reals:
    """Mean of rows as a ring all-reduce gives it that decodes, adds and encodes again at every hop.

    Part c of the vector starts at worker c, collects one worker's share a hop, and is encoded once more when it is
    handed round; sums are kept in the type of the values, as INTELLECT-1's int8 ring does.

    Args:
        values: Shape (workers, entries); not changed.
        compressor: Of what travels, one tensor a part.
        job: Workers and draws.
        step: Of the message.
        among: Workers of the ring, ascending, one or more; None: all.

    Returns:
        Shape (1, entries).
    """
    ring = np.arange(len(values)) if among is None else among
    values, n = values[ring], len(ring)
    out = np.empty((1, values.shape[1]), values.dtype)
    for part, at in enumerate(_ring_parts(values.shape[1], n)):
        shapes = ((at.stop - at.start,),)
        total = values[part : part + 1, at]
        for hop in range(n):
            sender = ring[[(part + hop) % n]]
            total = compressor.decoded(total, shapes, job.draws, sender, step)
            if hop < n - 1:
                receiver = (part + hop + 1) % n
                total = total + values[receiver : receiver + 1, at]
        out[:, at] = total
    out /= values.dtype.type(n)
    return out


def _ring_parts(entries: int, workers: int) -> list[slice]:
    ends = [entries * (i + 1) // workers for i in range(workers)]
    return [slice(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True) if b > a]
