"""DAEF: merged equals centralised, one round, and better than many steps of gradients."""

from __future__ import annotations

import numpy as np
import pytest
from arrival_runs import built_task
from learning_runs import ADAMW, built, job, quadratic

from windtunnel.errors import BadInput
from windtunnel.learning.algorithms.daef import PartialMatrices, factor, fitted
from windtunnel.learning.drivers.lock_step import learn
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks import TASKS


def autoencoder(workers: int = 5, split: str = "dirichlet", **knobs):
    return built_task("autoencoder", workers, split=split, value=0.3, dtype="float64", samples=1500, **knobs)


@pytest.mark.parametrize("sizes", [(32, 8, 32), (32, 8, 24, 32), (32, 6, 12, 20, 32)])
def test_the_merged_network_is_the_centralised_one(sizes: tuple[int, ...]) -> None:
    task = autoencoder()
    nodes = [task.points_of(worker) for worker in range(5)]
    assert np.ptp([len(rows) for rows in nodes]) > 100
    merged = fitted(nodes, sizes, 1e-2, Draws(1))
    centre = fitted([np.vstack(nodes)], sizes, 1e-2, Draws(1))
    np.testing.assert_allclose(merged, centre, rtol=0, atol=1e-8)
    turned = fitted(nodes[::-1], sizes, 1e-2, Draws(1))
    np.testing.assert_allclose(turned, merged, rtol=0, atol=1e-8)  # the order of nodes changes nothing


def test_the_last_layer_is_the_ridge_of_the_layer_before_it() -> None:
    task = autoencoder()
    points = np.vstack([task.points_of(worker) for worker in range(5)])
    weights = fitted([points], (32, 8, 32), 0.5, Draws(1))
    code = np.tanh(points @ weights[:256].reshape(32, 8))
    inputs = np.hstack([code, np.ones((len(code), 1))])
    wanted = np.linalg.solve(inputs.T @ inputs + 0.5 * np.eye(9), inputs.T @ points)
    np.testing.assert_allclose(weights[264:].reshape(9, 32), wanted, atol=1e-9)
    principal = np.linalg.svd(points, full_matrices=False)[2][:8]
    np.testing.assert_allclose(np.abs(principal @ weights[:256].reshape(32, 8)), np.eye(8), atol=1e-8)


def test_a_node_with_fewer_samples_than_inputs_still_has_a_factor() -> None:
    rows = np.random.default_rng(1).normal(size=(3, 7))
    np.testing.assert_allclose(factor(rows).T @ factor(rows), rows.T @ rows, atol=1e-12)


def test_one_round_is_worth_some_tens_of_exchanges_of_gradients() -> None:
    """More steps of gradients end lower: the form is closed, not best."""
    task = autoencoder()
    to = job(task, steps=200, lr=1e-2, inner=ADAMW)
    closed = learn(built("daef", to), task, to, 1).loss
    assert (closed[1:] == closed[1]).all()
    steps = learn(built("data_parallel", to), task, to, 10).loss
    assert steps[-1] < closed[1] < steps[2] < steps[0]


def test_bytes_are_those_of_the_matrices_and_travel_once() -> None:
    task = autoencoder()
    algorithm = built("daef", job(task, steps=3))
    (message,) = algorithm.messages(0)
    assert algorithm.messages(1) == ()
    triangles = sum(n * (n + 1) // 2 for n in (32, 24, 25))
    assert message.nbytes(task.shapes) == 8 * (triangles + 24 * 8 + 25 * 32)
    assert PartialMatrices().nbytes(((10, 4), (4,), (4, 10), (10,))) == 8 * (55 + 15 + 50)


def test_gradients_of_the_autoencoder_are_slopes_of_its_loss() -> None:
    task = autoencoder(hidden=6, code=3)
    params = np.tile(task.initial(), (2, 1))
    who, when = np.array([3, 0]), np.array([5, 1])
    gradients, scratch = np.empty_like(params), np.empty_like(params)
    task.gradients(params, who, when, gradients)
    for entry in np.random.default_rng(1).integers(0, params.shape[1], 30):
        ends = []
        for step in (1e-5, -1e-5):
            moved = params.copy()
            moved[:, entry] += step
            ends.append(task.gradients(moved, who, when, scratch))
        np.testing.assert_allclose((ends[0] - ends[1]) / 2e-5, gradients[:, entry], rtol=1e-5, atol=1e-8)
    alone = np.empty((1, params.shape[1]))
    task.gradients(params[1:], who[1:], when[1:], alone)
    assert np.array_equal(alone[0], gradients[1])


def test_other_tasks_are_refused() -> None:
    task = quadratic(np.ones((2, 3)), 0.0)
    to = job(task, steps=2)
    with pytest.raises(BadInput, match=r"daef.*allowed: task autoencoder"):
        learn(built("daef", to), task, to, 1)
    assert "autoencoder" in TASKS.list()
