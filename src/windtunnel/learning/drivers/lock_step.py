"""The lock-step driver: all workers step together, whatever the clock says; curves are timed afterwards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.learning.algorithms.base import LockStepAlgorithm, TakesOwnGradients
from windtunnel.learning.job import Job
from windtunnel.learning.tasks.base import Task
from windtunnel.one_thread import one_thread
from windtunnel.progress import counting


@dataclass(frozen=True, slots=True)
class Curve:
    """What was learned, against local steps."""

    steps: Ints
    """Local steps after which parameters were evaluated, ascending, shape (points,)."""
    loss: Floats
    """On held-out data, shape (points,)."""
    metric: Floats
    """Shape (points,); NaN where the task has none."""
    train_loss: Floats
    """Mean over workers of each step's batch loss, shape (local steps,)."""
    diverged_at: int | None = None
    """Local step whose loss was not finite; the curve ends before it."""


def learn(algorithm: LockStepAlgorithm, task: Task, job: Job, evaluate_every: int) -> Curve:
    """Train for real; stops where a loss is not finite and keeps the points before.

    Args:
        algorithm: Built for `job`.
        task: With as many workers as the job.
        job: Steps and learning rates.
        evaluate_every: Local steps between points; the first point is before the first step, the last after the last.
    """
    with one_thread():
        return _learn(algorithm, task, job, evaluate_every)


def _learn(algorithm: LockStepAlgorithm, task: Task, job: Job, evaluate_every: int) -> Curve:
    state = algorithm.start(task.initial())
    gradients = np.empty_like(state.params)
    steps_of = np.zeros(job.workers, np.int64)
    train = np.empty(job.steps)
    points: list[tuple[int, float, float]] = []
    everyone = job.everyone
    own = algorithm if isinstance(algorithm, TakesOwnGradients) else None

    def evaluate(step: int) -> bool:
        score = task.evaluate(algorithm.reported(state))
        if not np.isfinite(score.loss[0]):
            return False
        points.append((step, float(score.loss[0]), float(score.metric[0])))
        return True

    evaluate(0)
    diverged: int | None = None
    done = 0
    work = counting("local steps", lambda: (done, job.steps), "learning.steps, learning.workers, learning.batch")
    with work as pace, np.errstate(over="ignore", invalid="ignore"):
        for step in range(job.steps):
            pace.check()
            steps_of[:] = step
            if own is None:
                losses = task.gradients(state.params, everyone, steps_of, gradients)
            else:
                losses = own.own_gradients(task, state, step, gradients)
            train[step] = losses.mean()
            if not np.isfinite(train[step]):
                diverged = step
                break
            algorithm.before_step(state, gradients, step)
            algorithm.step(state, gradients, step)
            algorithm.after_step(state, step)
            done = step + 1
            if (done % evaluate_every == 0 or done == job.steps) and not evaluate(done):
                diverged = step
                break
    at, loss, metric = (np.array(column) for column in zip(*points, strict=True)) if points else (np.zeros(0),) * 3
    return Curve(at.astype(np.int64), loss, metric, train[:done], diverged)
