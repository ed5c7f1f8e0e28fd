"""MASHA1: extragradient for games whose fields travel as compressed differences to those at a point refreshed rarely.

z̄ = τz + (1 − τ)w; z½ = z̄ − γF(w); z ← z̄ − γ(F(w) + Q_s⟨Q(F_i(z½) − F_i(w))⟩); with probability 1 − τ then w ← z,
and its full field is exchanged.

Source: Beznosikov et al. 2022 (arXiv 2110.03313), algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Reals
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms import _parts as parts
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.compose import Composed
from windtunnel.learning.compressors.base import Compressor
from windtunnel.learning.compressors.cast import Cast
from windtunnel.learning.job import Job
from windtunnel.learning.messages import Kind, Message, WireFormat
from windtunnel.learning.state import LearnerState
from windtunnel.learning.tasks.base import Task
from windtunnel.techniques.knobs import Knob


@dataclass(slots=True)
class Masha(Composed):
    """See the module. `extra`: w and z̄, shape (1, params), and each worker's F_i(w), shape (workers, params)."""

    up: Compressor = field(default_factory=Cast)
    down: Compressor = field(default_factory=Cast)
    refresh: float = 0.1

    def start(self, initial: Reals) -> LearnerState:
        """W starts where z does."""
        state = Composed.start(self, initial)
        state.extra["w"] = initial[None, :].copy()
        state.extra["fields"] = np.zeros_like(state.params)
        return state

    def own_gradients(self, task: Task, state: LearnerState, step: int, out: Reals) -> Floats:
        """Fields at z½, and at w where it is new; see `TakesOwnGradients`."""
        job, steps, x = self.job, np.full(self.job.workers, step), state.extra
        if step == 0 or self.refreshed(step - 1):
            task.gradients(np.repeat(x["w"], job.workers, axis=0), job.everyone, steps, x["fields"])
        x["bar"] = (1.0 - self.refresh) * state.params[:1] + self.refresh * x["w"]
        half = x["bar"] - job.lr.at(step) * x["fields"].mean(axis=0)
        return task.gradients(np.repeat(half, job.workers, axis=0), job.everyone, steps, out)

    def before_step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """Differences to the fields at w are compressed up and down."""
        job, fields = self.job, state.extra["fields"]
        sent = self.up.decoded(gradients - fields, job.shapes, job.draws, job.everyone, step)
        server = np.array([job.workers])  # draws of its own
        mean = self.down.decoded(sent.mean(axis=0, keepdims=True), job.shapes, job.draws, server, step)
        gradients[:] = fields.mean(axis=0) + mean

    def step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """From z̄, not from z."""
        state.params[:] = state.extra["bar"] - self.job.lr.at(step) * gradients

    def after_step(self, state: LearnerState, step: int) -> None:
        """A new w, where the coin says so."""
        if self.refreshed(step):
            state.extra["w"] = state.params[:1].copy()

    def refreshed(self, step: int) -> bool:
        """Whether w becomes z at the end of a step: the same coin for all workers."""
        return bool(self.job.draws.uniforms("masha refresh", 0, step, 1)[0, 0] < self.refresh)

    @property
    def step_work(self) -> float:
        """One gradient at z½, and one at w where it is new, in the mean."""
        return 1.0 + self.refresh

    def messages(self, step: int) -> tuple[Message, ...]:
        """Compressed differences up and down; full fields too where w is new."""
        if self.job.workers == 1:
            return ()
        wires: list[tuple[Kind, WireFormat]] = [("to_server", self.up), ("from_server", self.down)]
        if step == 0 or self.refreshed(step):
            wires += [("to_server", Cast(32)), ("from_server", Cast(32))]
        return tuple(
            Message(kind=kind, wire=wire, after_step=step, needed_by=step + 1, in_turn=True) for kind, wire in wires
        )


def build(job: Job, knobs: dict[str, Any]) -> Masha:
    """Compressors have to be unbiased: MASHA1 has no memory of what they leave out."""
    problems = parts.problems_of("masha")
    up = parts.compressor_of(knobs, problems)
    down = parts.compressor_of(knobs, problems, "down")
    for name, wire in (("compressor", up), ("down", down)):
        if not wire.unbiased:
            rule = f"compressor {wire.id} is biased; MASHA1 needs unbiased ones (randk, quantised with rounding "
            problems.add(name, wire.id, rule + "stochastic, ternary with clip 0)")
    problems.raise_if_any()
    share = up.nbytes(job.shapes) / Cast(32).nbytes(job.shapes)
    return Masha(job, up=up, down=down, refresh=knobs["refresh"] or min(1.0, share))


ALGORITHMS.add(
    "masha",
    AlgorithmKind(
        id="masha",
        summary="extragradient for games, with compressed differences to a point that is refreshed rarely",
        build=build,
        knobs={
            "compressor": Knob(
                {"randk": {"fraction": 0.1, "shared": False}}, doc="up: id of a compressor, or {id: {knob: value}}"
            ),
            "down": Knob(None, doc="down: id of a compressor, or {id: {knob: value}}; absent: as it is"),
            "refresh": Knob(0.0, 0.0, 1.0, "1 − τ: probability of a refresh; 0: the share of bytes that a message has"),
        },
        family="compression",
        source="Beznosikov et al. 2022 (arXiv 2110.03313), algorithm 1",
    ),
)
