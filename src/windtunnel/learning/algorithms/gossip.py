"""Gossip: after K local steps, Q rounds of averages with neighbours in a graph; X ← W^Q X.

K and Q 1 is decentralised SGD (Lian et al. 2017). The distance to the mean falls by |λ₂(W)|^Q at each exchange.

Source: Lian et al. 2017 (arXiv 1705.09056); Koloskova et al. 2020 (arXiv 2003.10422).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Reals
from windtunnel.errors import attempt
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms import _parts as parts
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.compressors.cast import Cast
from windtunnel.learning.job import Job
from windtunnel.learning.messages import Message
from windtunnel.learning.mixing import GRAPHS
from windtunnel.learning.mixing._matrices import degrees, metropolis
from windtunnel.learning.state import LearnerState, started
from windtunnel.techniques.knobs import Knob


@dataclass(slots=True)
class Gossip:
    """A `LockStepAlgorithm` without an anchor."""

    job: Job
    period: int
    rounds: int
    weights: Floats
    """W, shape (workers, workers)."""
    degree: float
    """Neighbours of the worker with most."""
    wire: Cast
    _mixed: Reals = field(default_factory=lambda: np.zeros((0, 0)))

    def start(self, initial: Reals) -> LearnerState:
        """See `LockStepAlgorithm.start`."""
        state = started(initial, self.job.workers)
        state.inner = {name: np.zeros_like(state.params) for name in self.job.inner.states}
        self._mixed = np.empty_like(state.params)
        return state

    def before_step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """Gradients stay with their workers."""

    def step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """See `LockStepAlgorithm.step`."""
        self.job.inner.step(state.params, gradients, state.inner, self.job.lr.at(step), step)

    def after_step(self, state: LearnerState, step: int) -> None:
        """See `LockStepAlgorithm.after_step`."""
        if (step + 1) % self.period == 0:
            for _ in range(self.rounds):
                self.mix(state.params, step)

    def mix(self, params: Reals, step: int) -> None:
        """One round, in place: what travels is rounded to the bits of the wire, a worker's own is not."""
        own = np.diag(self.weights)[:, None].astype(params.dtype)
        others = (self.weights - np.diag(np.diag(self.weights))).astype(params.dtype)
        job = self.job
        sent = params if self.wire.bits > 16 else self.wire.decoded(params, job.shapes, job.draws, job.everyone, step)
        self._mixed[:] = 0.0
        for i in range(len(params)):  # neighbours in ascending order, whatever a product of matrices would do
            for j in np.flatnonzero(others[i]):
                self._mixed[i] += others[i, j] * sent[j]
        params *= own
        params += self._mixed

    def messages(self, step: int) -> tuple[Message, ...]:
        """A model to each neighbour, in each of the rounds."""
        if (step + 1) % self.period or self.job.workers == 1:
            return ()
        one = Message(kind="neighbours", wire=self.wire, degree=self.degree, after_step=step, needed_by=step + 1)
        return (one,) * self.rounds

    def reported(self, state: LearnerState) -> Reals:
        """The mean of the workers."""
        return np.asarray(state.params.mean(axis=0, keepdims=True))


def build(job: Job, knobs: dict[str, Any]) -> Gossip:
    """Metropolis weights on the graph."""
    problems = parts.problems_of("gossip")
    graph = attempt("graph", lambda: GRAPHS.get(knobs["graph"], "graph"), problems)
    if graph is not None and (rule := graph.problem(job.workers)):
        problems.add("graph", graph.id, f"{rule}, not {job.workers}")
    problems.raise_if_any()
    edges = graph.edges(job.workers)
    return Gossip(
        job=job,
        period=knobs["period"],
        rounds=knobs["rounds"],
        weights=metropolis(edges, job.workers),
        degree=float(degrees(edges, job.workers).max()) if edges else 0.0,
        wire=Cast(knobs["bits"]),
    )


ALGORITHMS.add(
    "gossip",
    AlgorithmKind(
        id="gossip",
        summary="local steps, then averages with neighbours in a graph",
        build=build,
        knobs={
            "graph": Knob("ring", doc="id of a graph: ring, torus, hypercube, complete"),
            "period": Knob(1, 1, 1_000_000, "K: local steps between exchanges"),
            "rounds": Knob(1, 1, 1000, "Q: averages of an exchange"),
            "bits": Knob(32, choices=(16, 32, 64), doc="bits of a value on its way"),
        },
        source="Koloskova et al. 2020 (arXiv 2003.10422)",
    ),
)
