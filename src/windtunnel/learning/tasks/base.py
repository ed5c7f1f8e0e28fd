"""What a task gives: losses, gradients and held-out scores of a problem small enough to train for real."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Protocol

from windtunnel.arrays import Floats, Ints, Reals
from windtunnel.learning.randomness import Draws

Shapes = tuple[tuple[int, ...], ...]
"""Shapes of the parameter tensors, in the order in which they lie in a flat vector."""


def params_of(shapes: Shapes) -> int:
    """Entries of all tensors together."""
    return sum(prod(shape) for shape in shapes)


@dataclass(frozen=True, slots=True)
class Score:
    """How good parameters are on held-out data, one entry for each row of parameters."""

    loss: Floats
    """Shape (rows,)."""
    metric: Floats
    """Shape (rows,): what `Task.metric` names; NaN where the task has none."""


class Task(Protocol):
    """A problem with its data, split over workers.

    Parameters are rows of one array of shape (rows, params), of the type of `initial()`; a row belongs to a worker.
    Batches are drawn by (seed, worker, step) alone: a row's gradient never depends on which other rows are asked for.
    """

    @property
    def shapes(self) -> Shapes:
        """Shapes of the parameter tensors."""

    @property
    def workers(self) -> int:
        """Workers that have data."""

    @property
    def floor(self) -> float | None:
        """Lowest expected loss that any parameters reach; None where it is not known."""

    @property
    def metric(self) -> str:
        """What `Score.metric` is: accuracy …; empty where the task has none."""

    def initial(self) -> Reals:
        """Parameters that all workers start from, shape (params,)."""

    def gradients(self, params: Reals, workers: Ints, steps: Ints, out: Reals) -> Floats:
        """Stochastic gradients at a batch of each row's worker and step.

        Args:
            params: Shape (rows, params); not changed.
            workers: Worker of each row, shape (rows,).
            steps: Step of each row, shape (rows,): another step is another batch.
            out: Gradients are written here, shape (rows, params).

        Returns:
            Loss of each row's batch, shape (rows,).
        """

    def evaluate(self, params: Reals) -> Score:
        """Scores on the held-out data of all workers together, for each row of `params`, shape (rows, params)."""


@dataclass(frozen=True, slots=True)
class TaskSetting:
    """What every task is built from, next to knobs of its own."""

    workers: int
    batch: int
    """Samples of one worker's step."""
    seed: int
    split: str = "iid"
    """`iid`, `dirichlet` or `labels`: how samples are given to workers."""
    split_value: float = 0.0
    """Concentration of the Dirichlet law, or labels of a worker."""

    @property
    def draws(self) -> Draws:
        """Random numbers of the run."""
        return Draws(self.seed)


def views(flat: Reals, shapes: Shapes) -> list[Reals]:
    """The tensors inside flat rows, without a copy: shape (rows, *shape) each.

    Args:
        flat: Shape (rows, params), C-contiguous along its last axis.
        shapes: Of the tensors.
    """
    out, at = [], 0
    for shape in shapes:
        size = prod(shape)
        out.append(flat[:, at : at + size].reshape(len(flat), *shape))
        at += size
    return out
