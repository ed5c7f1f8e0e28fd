"""SCAFFOLD: control variates undo the drift of clients whose data differ.

x ← x − η(g − c_i + c) for K steps from a; then Δ_i = (a − x)/(Kη) − c is the change of c_i, a ← a − ν⟨a − x⟩ and
c ← c + (m/n)⟨Δ_i⟩. With a learning rate that changes, Kη is the sum of the round's rates. Clients take plain SGD steps,
whatever optimizer the scenario names.

Source: Karimireddy et al. 2020 (arXiv 1910.06378), algorithm 1, option II.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from windtunnel.arrays import Reals
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms._federated import ACTIVE, LOCAL_STEPS, SERVER_LR, Federated
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.inner.sgd import SGD
from windtunnel.learning.job import Job
from windtunnel.learning.outer.average import Average
from windtunnel.learning.state import LearnerState


@dataclass(slots=True, kw_only=True)
class Scaffold(Federated):
    """Controls stand in `state.extra`: `control` (1, params) of the server, `controls` (workers, params) of clients."""

    def start(self, initial: Reals) -> LearnerState:
        """All controls begin at 0."""
        state = Federated.start(self, initial)
        assert state.anchor is not None
        state.extra["control"] = np.zeros_like(state.anchor)
        state.extra["controls"] = np.zeros((self.job.workers, len(initial)), initial.dtype)
        return state

    def correct(self, state: LearnerState, gradients: Reals) -> None:
        """G − c_i + c."""
        gradients -= state.extra["controls"][self.clients]
        gradients += state.extra["control"]

    def control_changes(self, state: LearnerState, step: int) -> Reals:
        """Δ_i = (a − x)/(Kη) − c of the round's clients, shape (m, params)."""
        assert state.anchor is not None
        rates = sum(self.job.lr.at(at) for at in range(step + 1 - self.local_steps, step + 1))
        changes = state.anchor - state.params
        changes /= changes.dtype.type(rates)
        changes -= state.extra["control"]
        return np.asarray(changes)

    def end_round(self, state: LearnerState, step: int) -> None:
        """Both differences of each client arrive."""
        assert state.anchor is not None
        changes = self.control_changes(state, step)
        self.outer.step(state.anchor, self.mean(state.anchor - state.params), state.outer, step // self.local_steps)
        self.keep_controls(state, changes)

    def keep_controls(self, state: LearnerState, changes: Reals) -> None:
        """Add changes to the controls of clients, and their share to the server's."""
        share = changes.dtype.type(len(self.clients) / self.job.workers)
        state.extra["controls"][self.clients] += changes
        state.extra["control"] += share * changes.mean(axis=0, keepdims=True)


KNOBS = {"local_steps": LOCAL_STEPS, "active": ACTIVE, "server_lr": SERVER_LR}


def build(job: Job, knobs: dict[str, Any]) -> Scaffold:
    """Two vectors of the model's size up and two down."""
    return Scaffold(
        job=job,
        local_steps=knobs["local_steps"],
        outer=Average(knobs["server_lr"]),
        inner=SGD(),
        active=knobs["active"],
        copies_up=2.0,
        copies_down=2.0,
    )


ALGORITHMS.add(
    "scaffold",
    AlgorithmKind(
        id="scaffold",
        summary="clients corrected by control variates; two vectors up and two down",
        build=build,
        knobs=KNOBS,
        family="fl-edge",
        source="Karimireddy et al. 2020 (arXiv 1910.06378), algorithm 1, option II",
    ),
)
