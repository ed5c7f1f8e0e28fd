"""Attacks: what some workers send in place of their gradients, or learn in place of their data."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Literal

import numpy as np

from windtunnel.arrays import Floats, Ints, Reals
from windtunnel.errors import BadInput, Problem
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks.base import Score, Shapes, Task
from windtunnel.learning.tasks.classification import Classifier

AttackKind = Literal["sign_flip", "random", "scaled", "label_flip", "alie"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """The first `workers` workers are attacked, in every step."""

    kind: AttackKind
    workers: int
    strength: float = 10.0
    """sign_flip, scaled: factor of the gradient. random: norm of the noise over that of the gradient. alie, label_flip:
    not read."""


@dataclass(slots=True)
class AttackedTask:
    """A task whose first workers send something else than their gradients; all else is the task's own.

    sign_flip: −strength·g. scaled: strength·g. random: normal noise. alie (*a little is enough*): all attackers send
    the honest mean less z standard deviations, entry by entry, with the largest z that a majority still covers.

    Source: Baruch et al. 2019 (arXiv 1902.06156), algorithm 3, for alie; Blanchard et al. 2017 for the others.
    """

    task: Task
    attack: Attack
    draws: Draws
    shapes: Shapes = field(init=False)
    workers: int = field(init=False)
    floor: float | None = field(init=False)
    metric: str = field(init=False)

    def __post_init__(self) -> None:
        self.shapes, self.workers = self.task.shapes, self.task.workers
        self.floor, self.metric = self.task.floor, self.task.metric

    def initial(self) -> Reals:
        """See `Task.initial`."""
        return self.task.initial()

    def evaluate(self, params: Reals) -> Score:
        """See `Task.evaluate`."""
        return self.task.evaluate(params)

    def gradients(self, params: Reals, workers: Ints, steps: Ints, out: Reals) -> Floats:
        """See `Task.gradients`; under alie the rows of one step have to be those of all workers."""
        losses = self.task.gradients(params, workers, steps, out)
        bad, one = workers < self.attack.workers, out.dtype.type
        if not bad.any():
            return losses
        kind, strength = self.attack.kind, self.attack.strength
        if kind == "sign_flip":
            out[bad] *= one(-strength)
        elif kind == "scaled":
            out[bad] *= one(strength)
        elif kind == "random":
            noise = self.draws.normals("attack", workers[bad], steps[bad], out.shape[1])
            norms = np.linalg.norm(out[bad], axis=1, keepdims=True)
            out[bad] = noise * (strength * norms / np.sqrt(out.shape[1]))
        elif kind == "alie":
            honest = out[~bad]
            z = little_enough(self.workers, self.attack.workers)
            out[bad] = honest.mean(axis=0) - one(z) * honest.std(axis=0)
        return losses


def little_enough(workers: int, attacked: int) -> float:
    """Z of *a little is enough*: so many standard deviations that enough honest workers lie further away.

    Source: Baruch et al. 2019 (arXiv 1902.06156), equation 6: s = ⌊n/2 + 1⌋ − m supporters are needed, and z is the
    quantile of (n − m − s)/(n − m).
    """
    supporters = workers // 2 + 1 - attacked
    share = (workers - attacked - supporters) / (workers - attacked)
    return NormalDist().inv_cdf(min(max(share, 1e-6), 1 - 1e-6))


def attacked(task: Task, attack: Attack, draws: Draws) -> Task:
    """The task under an attack.

    Raises:
        BadInput: labels of a task that has none.
    """
    if attack.kind != "label_flip":
        return AttackedTask(task, attack, draws)
    if not isinstance(task, Classifier):
        rule = "the task has no labels to flip; allowed: tasks logistic, mlp-digits and gaussian-mixture"
        raise BadInput(Problem("learning.attack.kind", rule, "label_flip"))
    task.flipped = attack.workers
    return task
