"""Rounds of workers that fail and join, for algorithms that exchange parameters once a round.

Who began a round and whose results count is known before anything is learned: it follows from the clock of the target.
A worker that was lost loses its inner states, and what error feedback had kept; whoever comes copies the anchor.

Source: INTELLECT-1 (arXiv 2412.01152), section 2.2; Douillard et al. 2023 (arXiv 2311.08105), section 3.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Ints, Reals
from windtunnel.learning.compose import Composed
from windtunnel.learning.job import Job
from windtunnel.learning.messages import Message
from windtunnel.learning.state import LearnerState
from windtunnel.learning.tasks.base import Task

MOST_PERIOD = 10_000
"""Local steps of the longest round that is played with failures."""


def may_be_elastic(algorithm: Any) -> bool:
    """Whether rounds of an algorithm go on without those that fail.

    Its workers meet once a round, all at the same step, with their parameters alone: nothing is late or in parts, no
    state is averaged next to them, and no gradient is exchanged between rounds.
    """
    if type(algorithm) is not Composed or algorithm.gradients is not None or algorithm.parameters is None:
        return False
    p = algorithm.parameters
    plain = p.fragments == 1 and not p.late and not p.states and p.who is None
    return plain and isinstance(p.period, int) and p.period <= MOST_PERIOD and algorithm.job.workers > 1


def round_of(algorithm: Any) -> int:
    """Local steps of a round of an algorithm that `may_be_elastic`."""
    period = algorithm.parameters.period
    assert isinstance(period, int)
    return period


@dataclass(slots=True)
class ElasticMembers:
    """A `LockStepAlgorithm` that takes its own gradients: `composed` among those that are there."""

    composed: Composed
    began: tuple[tuple[int, ...], ...]
    """Workers that began each round, ascending."""
    survived: tuple[tuple[int, ...], ...]
    """Those whose results count."""
    _age: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """Steps of each worker since its inner states were empty, shape (workers,)."""
    _now: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """Workers that began the round under way."""

    @staticmethod
    def of(composed: Composed, rounds: Mapping[str, Any]) -> ElasticMembers:
        """From `began` and `survived` of a curve's key."""
        began, survived = (tuple(tuple(who) for who in rounds[name]) for name in ("began", "survived"))

        def participants(job: Job, round_number: int) -> Ints:
            del job
            return np.array(survived[min(round_number, len(survived) - 1)], np.int64)

        assert composed.parameters is not None
        composed.parameters = replace(composed.parameters, who=participants)
        return ElasticMembers(composed, began, survived)

    def start(self, initial: Reals) -> LearnerState:
        """See `LockStepAlgorithm.start`."""
        self._age = np.zeros(self.composed.job.workers, np.int64)
        self._now = np.zeros(0, np.int64)
        return self.composed.start(initial)

    def own_gradients(self, task: Task, state: LearnerState, step: int, out: Reals) -> Floats:
        """Gradients of those that began the round; losses have one entry for each of them."""
        rows = self._now = self._members(step)
        found = np.empty((len(rows), out.shape[1]), out.dtype)
        losses = task.gradients(state.params[rows], rows, np.full(len(rows), step), found)
        out[rows] = found
        return losses

    def before_step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """See `LockStepAlgorithm.before_step`."""
        self.composed.before_step(state, gradients, step)

    def step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """Step the inner optimizer of those that are there, by the age of their states."""
        job, rows = self.composed.job, self._members(step)
        for age in np.unique(self._age[rows]):
            some = rows[self._age[rows] == age]
            params = state.params[some]
            inner = {name: values[some] for name, values in state.inner.items()}
            job.inner.step(params, gradients[some], inner, job.lr.at(step), int(age))
            state.params[some] = params
            for name, values in inner.items():
                state.inner[name][some] = values
        self._age[rows] += 1

    def after_step(self, state: LearnerState, step: int) -> None:
        """Exchange among the survivors; all others begin anew from the anchor."""
        self.composed.after_step(state, step)
        period = round_of(self.composed)
        if (step + 1) % period:
            return
        lost = np.ones(len(state.params), np.bool_)
        lost[self._survivors(step)] = False
        if not lost.any():
            return
        assert state.anchor is not None
        state.params[lost] = state.anchor
        for values in (*state.inner.values(), *state.residual.values()):
            values[lost] = 0.0
        self._age[lost] = 0

    def messages(self, step: int) -> tuple[Message, ...]:
        """See `LockStepAlgorithm.messages`: those of a round in which all take part."""
        return self.composed.messages(step)

    def reported(self, state: LearnerState) -> Reals:
        """See `LockStepAlgorithm.reported`: the anchor, or the mean of those that began the round."""
        p = self.composed.parameters
        assert p is not None and state.anchor is not None
        if p.evaluate == "anchor" or not len(self._now):
            return state.anchor
        return np.asarray(state.params[self._now].mean(axis=0, keepdims=True))

    def _members(self, step: int) -> Ints:
        at = min(step // round_of(self.composed), len(self.began) - 1)
        return np.array(self.began[at], np.int64)

    def _survivors(self, step: int) -> Ints:
        at = min(step // round_of(self.composed), len(self.survived) - 1)
        return np.array(self.survived[at], np.int64)
