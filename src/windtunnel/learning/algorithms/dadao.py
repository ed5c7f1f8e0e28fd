"""DADAO: gradients of workers and exchanges over edges fire as independent Poisson clocks; both are accelerated.

Each worker takes one gradient in a unit of time in the mean, and edges of the graph fire √(2χ₁χ₂) times together. The
six vectors of a worker mix continuously between its events, Params ← expm(−ΔtA)·Params, and jump at them. A local step
of the driver is a unit of time.

Source: Nabli and Oyallon 2023 (arXiv 2208.00779); constants as in the public code
(AdelNabli/DADAO, eed1ed1).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, log2, sqrt
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Ints, Reals
from windtunnel.errors import attempt
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms import _parts as parts
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.compressors.cast import Cast
from windtunnel.learning.job import Job
from windtunnel.learning.messages import Message
from windtunnel.learning.mixing import GRAPHS, Edges
from windtunnel.learning.mixing._matrices import contraction_and_resistance
from windtunnel.learning.state import LearnerState, started
from windtunnel.learning.tasks.base import Task
from windtunnel.techniques.knobs import Knob

_VECTORS = ("x_tilde", "y", "y_tilde", "z", "z_tilde")


@dataclass(frozen=True, slots=True)
class Constants:
    """What the dynamics follow from: smoothness L, strong convexity μ and χ₁ of a unit of time."""

    smoothness: float
    convexity: float
    chi1: float

    @property
    def nu(self) -> float:
        """Half the strong convexity."""
        return 0.5 * self.convexity

    def flow(self) -> Floats:
        """−A of d Params/dt = −A Params, for the rows x, x̃, y, ỹ, z, z̃; shape (6, 6)."""
        root = sqrt(self.nu / self.smoothness)
        eta, alpha, alpha_tilde, theta = root / 8, root / 4, root / 8, 0.5 / root
        out = np.zeros((6, 6))
        out[0, :2] = -eta, eta
        out[1, :2] = eta, -eta
        out[2, 2:4] = -alpha, alpha
        out[3, 1:5] = -theta * self.nu, -theta, 0.0, -theta
        out[4, 4:] = -alpha, alpha
        out[5, 4:] = alpha_tilde, -alpha_tilde
        return out


@dataclass(slots=True)
class Dadao:
    """A `LockStepAlgorithm` that asks for gradients itself (`TakesOwnGradients`)."""

    job: Job
    edges: Edges
    constants: Constants
    edge_rate: float
    """Exchanges of all edges together in a unit of time."""
    wire: Cast
    _flow: Floats = field(default_factory=lambda: np.zeros((6, 6)))
    _seen: Floats = field(default_factory=lambda: np.zeros(0))
    """Time of each worker's last event, shape (workers,)."""
    _asked: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """Gradients that each worker has taken: the step of its next batch."""

    def start(self, initial: Reals) -> LearnerState:
        """See `LockStepAlgorithm.start`."""
        state = started(initial, self.job.workers)
        state.extra = {name: np.zeros_like(state.params) for name in _VECTORS}
        self._flow = self.constants.flow()
        self._seen = np.zeros(self.job.workers)
        self._asked = np.zeros(self.job.workers, np.int64)
        return state

    def own_gradients(self, task: Task, state: LearnerState, step: int, out: Reals) -> Floats:
        """All events of a unit of time in their order; see `TakesOwnGradients`."""
        times, whose = self.events(step)
        losses = np.full(self.job.workers, np.nan)
        for at, who in zip(times, whose, strict=True):
            if who < self.job.workers:
                losses[who] = self._gradient(task, state, int(who), at, out)
            else:
                self._exchange(state, self.edges[int(who) - self.job.workers], at)
        if np.isnan(losses).all():
            return np.zeros(self.job.workers) if not np.isnan(state.params).any() else losses
        return np.where(np.isnan(losses), np.nanmean(losses), losses)

    def events(self, step: int) -> tuple[Floats, Ints]:
        """(times, what fires) in a unit of time, in order: a worker's number, or `workers` + an edge's."""
        n = self.job.workers
        rates = np.concatenate([np.ones(n), np.full(len(self.edges), self.edge_rate / max(1, len(self.edges)))])
        times, whose = [], []
        for source, rate in enumerate(rates):
            count = max(20, ceil(rate + 12 * sqrt(rate)))
            waits = -np.log1p(-self.job.draws.uniforms("poisson clock", source, step, count)[0]) / rate
            at = np.cumsum(waits)
            at = at[at < 1.0]
            times.append(at + step)
            whose.append(np.full(len(at), source))
        when, who = np.concatenate(times), np.concatenate(whose)
        order = np.lexsort((who, when))
        return when[order], who[order]

    def before_step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """All has happened in `own_gradients`."""

    def step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """All has happened in `own_gradients`."""

    def after_step(self, state: LearnerState, step: int) -> None:
        """All has happened in `own_gradients`."""

    def messages(self, step: int) -> tuple[Message, ...]:
        """One vector over each edge that fires, in either direction."""
        _, whose = self.events(step)
        fired = whose[whose >= self.job.workers] - self.job.workers
        return tuple(
            Message(
                kind="pairs",
                wire=self.wire,
                after_step=step,
                needed_by=step + 2,
                participants=self.edges[int(edge)],
            )
            for edge in fired
        )

    def reported(self, state: LearnerState) -> Reals:
        """The mean of the workers."""
        return np.asarray(state.params.mean(axis=0, keepdims=True))

    def _flowed(self, state: LearnerState, who: int, at: float) -> None:
        """Mix a worker's six vectors up to a time."""
        dt = at - self._seen[who]
        self._seen[who] = at
        rows = np.stack([state.params[who], *(state.extra[name][who] for name in _VECTORS)])
        mixed = exponential(self._flow * dt) @ rows
        state.params[who] = mixed[0]
        for name, row in zip(_VECTORS, mixed[1:], strict=True):
            state.extra[name][who] = row

    def _gradient(self, task: Task, state: LearnerState, who: int, at: float, out: Reals) -> float:
        self._flowed(state, who, at)
        c, extra = self.constants, state.extra
        batch = self._asked[who : who + 1].copy()
        self._asked[who] += 1
        loss = task.gradients(state.params[who : who + 1], np.array([who]), batch, out[who : who + 1])
        jump = out[who] - c.nu * state.params[who] - extra["y_tilde"][who]
        state.params[who] -= jump / (4 * c.smoothness)
        extra["x_tilde"][who] -= jump / (4 * sqrt(c.smoothness * c.nu))
        extra["y_tilde"][who] += (0.25 * sqrt(c.nu / c.smoothness) + 1.0) * jump
        return float(loss[0])

    def _exchange(self, state: LearnerState, edge: tuple[int, int], at: float) -> None:
        i, j = edge
        c, extra = self.constants, state.extra
        for who in edge:
            self._flowed(state, who, at)
        apart = extra["y"][i] + extra["z"][i] - extra["y"][j] - extra["z"][j]
        fast = 2.0 * c.chi1 * sqrt(c.smoothness / c.nu)
        for who, sign in ((i, 1.0), (j, -1.0)):
            extra["z"][who] -= 0.5 * sign * apart
            extra["z_tilde"][who] -= fast * sign * apart


def exponential(matrix: Floats) -> Floats:
    """The exponential of a small matrix: 14 terms of its series on matrix/2^k, then k squarings.

    Source: Moler and Van Loan 2003, Nineteen dubious ways to compute the exponential of a matrix, method 3.
    """
    norm = float(np.abs(matrix).sum(axis=1).max())
    halvings = max(0, ceil(log2(norm)) + 2) if norm > 0.25 else 0
    small = matrix / 2.0**halvings
    out = term = np.eye(len(matrix))
    for k in range(1, 15):
        term = term @ small / k
        out = out + term
    for _ in range(halvings):
        out = out @ out
    return out


def build(job: Job, knobs: dict[str, Any]) -> Dadao:
    """Rates and constants from the graph, the smoothness and the strong convexity."""
    problems = parts.problems_of("dadao")
    graph = attempt("graph", lambda: GRAPHS.get(knobs["graph"], "graph"), problems)
    if graph is not None and (rule := graph.problem(job.workers)):
        problems.add("graph", graph.id, f"{rule}, not {job.workers}")
    if knobs["convexity"] > knobs["smoothness"]:
        rule = f"is the least curvature; allowed: up to smoothness, {knobs['smoothness']:g}"
        problems.add("convexity", knobs["convexity"], rule)
    problems.raise_if_any()
    edges = graph.edges(job.workers)
    chi1, chi2 = contraction_and_resistance(edges, job.workers) if edges else (1.0, 1.0)
    rate = knobs["edge_rate"] or sqrt(2.0 * chi1 * chi2)
    constants = Constants(knobs["smoothness"], knobs["convexity"], chi1 / rate)
    return Dadao(job=job, edges=edges, constants=constants, edge_rate=rate if edges else 0.0, wire=Cast(knobs["bits"]))


ALGORITHMS.add(
    "dadao",
    AlgorithmKind(
        id="dadao",
        summary="accelerated gossip whose gradients and exchanges fire as Poisson clocks",
        build=build,
        knobs={
            "graph": Knob("ring", doc="id of a graph: ring, torus, hypercube, complete"),
            "smoothness": Knob(1.0, 1e-12, 1e12, "L: largest curvature of a worker's loss"),
            "convexity": Knob(0.01, 1e-12, 1e12, "μ: least curvature of a worker's loss"),
            "edge_rate": Knob(None, 1e-6, 1e6, "exchanges of all edges in a unit of time; absent: √(2χ₁χ₂)"),
            "bits": Knob(32, choices=(16, 32, 64), doc="bits of a value on its way"),
        },
        family="low-comm",
        source="Nabli and Oyallon 2023 (arXiv 2208.00779)",
    ),
)
