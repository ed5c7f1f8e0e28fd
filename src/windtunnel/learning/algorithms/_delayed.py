"""Rounds whose outer gradient arrives a round or more later, while the workers already go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from windtunnel.arrays import Reals
from windtunnel.learning.compose import Composed, OnTheWay
from windtunnel.learning.state import LearnerState

Use = Literal["delayed", "eager", "against_now"]
"""What a worker steps the outer optimizer on at the end of a round.

delayed: the mean difference that has arrived. eager: its own fresh share with the others' that have arrived.
against_now: the anchor as it is now, less the mean of the workers that has arrived."""


@dataclass(slots=True)
class Delayed(Composed):
    """`late` of its exchange is a number of whole rounds; the first rounds have nothing to merge."""

    rounds: int = 1
    use: Use = "delayed"

    def start(self, initial: Reals) -> LearnerState:
        """Eager workers have anchors of their own; the others share one."""
        self.keep_rows = self.use != "delayed"
        state = Composed.start(self, initial)
        assert state.anchor is not None
        if self.use == "eager":
            state.anchor = np.tile(initial, (self.job.workers, 1))
            state.outer = {name: np.zeros_like(state.anchor) for name in state.outer}
        return state

    def after_step(self, state: LearnerState, step: int) -> None:
        """At the end of a round: send what is fresh, merge what has arrived, and go on from the anchor."""
        p = self.parameters
        assert p is not None
        fragment = p.schedule.due(step)
        if fragment is None:
            return
        self.send(state, fragment, step)
        queue = self._queue[fragment]
        fresh = queue[-1]
        came = queue.popleft() if len(queue) > self.rounds else None
        difference = self._difference(state, fragment, fresh, came)
        if difference is not None:
            self.outer_step(state, fragment, difference)
        self.give(state, fragment, None)

    def _difference(self, state: LearnerState, fragment: int, fresh: OnTheWay, came: OnTheWay | None) -> Reals | None:
        assert state.anchor is not None
        if self.use == "eager":
            assert fresh.rows is not None
            one = fresh.rows.dtype.type
            own = fresh.rows * one(1.0 / self.job.workers)
            if came is None:
                return own
            assert came.rows is not None and came.mean is not None
            own += came.mean
            own -= came.rows * one(1.0 / self.job.workers)
            return own
        if came is None or came.mean is None:
            return None
        if self.use == "delayed":
            return came.mean
        assert came.anchor is not None
        return np.asarray(came.mean + (state.anchor[:, self._entries[fragment]] - came.anchor))
