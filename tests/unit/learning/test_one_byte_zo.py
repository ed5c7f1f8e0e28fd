"""One byte a worker and step: replicas that hold the same bits, who joins late, and the estimator's second moment."""

from __future__ import annotations

import numpy as np
import pytest

from windtunnel.learning.algorithms.one_byte_zo import OneByteZO
from windtunnel.learning.drivers.lock_step import learn
from windtunnel.learning.inner.base import LearningRate
from windtunnel.learning.inner.sgd import SGD
from windtunnel.learning.job import Job
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks.base import TaskSetting
from windtunnel.learning.tasks.quadratic import build


def bowls(workers: int = 4, params: int = 16):
    """Quadratics without noise, and a job on them."""
    knobs = {"params": params, "condition": 10.0, "noise": 0.0, "shift": 0.0, "curvature_spread": 0.0, "data_seed": 1}
    task = build(TaskSetting(workers, 1, 1), knobs)
    job = Job(workers=workers, steps=200, shapes=task.shapes, inner=SGD(), lr=LearningRate(0.05), draws=Draws(5))
    return task, job


def test_it_learns_from_a_byte_a_step():
    """And sends as many bytes a step as there are workers, whatever the model."""
    task, job = bowls()
    algorithm = OneByteZO(job)
    curve = learn(algorithm, task, job, 50)
    assert curve.loss[-1] < 0.05 * curve.loss[0]
    (message,) = algorithm.messages(0)
    assert message.nbytes(task.shapes) == message.nbytes(((10**6, 1000),)) == algorithm.log[0][0].nbytes == 1
    assert sum(part.nbytes for part in algorithm.log[0]) == job.workers


def test_replicas_hold_the_same_bits_and_who_joins_late_replays_to_them():
    """From the first parameters and the log alone."""
    task, job = bowls()
    algorithm = OneByteZO(job)
    state, out = algorithm.start(task.initial()), np.empty((4, 16))
    for step in range(60):
        algorithm.own_gradients(task, state, step, out)
        algorithm.before_step(state, out, step)
        algorithm.step(state, out, step)
    assert (state.params == state.params[0]).all()
    joiner = OneByteZO(job).replayed(task.initial(), algorithm.log)
    np.testing.assert_array_equal(joiner, state.params[0])


def test_second_moment_of_the_estimate():
    """E‖s·u‖² = (d + 2)‖g‖² for normal u (bar: 3 %), and its mean is g."""
    d, rows = 20, 40_000
    task, job = bowls(1, d)
    u = job.draws.normals("direction 0", np.arange(rows), 0, d)
    x, gradient = task.initial(), np.empty((1, d))
    task.gradients(x[None], np.zeros(1, np.int64), np.zeros(1, np.int64), gradient)
    losses = [
        task.gradients(x + sign * 1e-4 * u, np.zeros(rows, np.int64), np.zeros(rows, np.int64), np.empty((rows, d)))
        for sign in (1, -1)
    ]
    slopes = (losses[0] - losses[1]) / 2e-4
    estimates = slopes[:, None] * u
    assert (estimates**2).sum(axis=1).mean() == pytest.approx((d + 2) * (gradient**2).sum(), rel=0.03)
    away = np.abs(estimates.mean(axis=0) - gradient[0])
    assert (away < 5 * estimates.std(axis=0) / np.sqrt(rows)).all()


def test_bytes_are_the_nearest_of_256_numbers():
    """A slope comes through with the tree's relative error; beyond the largest it is cut."""
    algorithm = OneByteZO(bowls()[1], largest=10.0)
    slopes = np.array([[0.0, 3.0, -0.04, 25.0]])
    np.testing.assert_allclose(algorithm.slope_of(algorithm.byte_of(slopes)), [[0.0, 3.0, -0.04, 10.0]], rtol=0.03)
