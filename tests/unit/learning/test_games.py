"""Extragradient and MASHA on a bilinear game: rates, bits to a distance, and what is left when nothing is lost."""

from __future__ import annotations

import numpy as np
import pytest

from windtunnel.errors import BadInput, ProblemList
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.drivers.lock_step import learn
from windtunnel.learning.inner.base import LearningRate
from windtunnel.learning.inner.sgd import SGD
from windtunnel.learning.job import Job
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks import TASKS
from windtunnel.learning.tasks.base import TaskSetting
from windtunnel.techniques.knobs import with_defaults


def game(workers: int = 4, seed: int = 1, **given: object):
    """A bilinear game of 2 × 32 entries."""
    kind = TASKS.get("bilinear")
    return kind.build(TaskSetting(workers, 1, seed), with_defaults(kind.knobs, given, "", ProblemList()))


def run(id: str, task, steps: int, lr: float, seed: int = 1, **given: object):
    """(curve, algorithm) of a run."""
    kind, problems = ALGORITHMS.get(id), ProblemList()
    knobs = with_defaults(kind.knobs, given, id, problems)
    problems.raise_if_any()
    job = Job(
        workers=task.workers, steps=steps, shapes=task.shapes, inner=SGD(), lr=LearningRate(lr), draws=Draws(seed)
    )
    algorithm = kind.build(job, knobs)
    return learn(algorithm, task, job, 10), algorithm


def bits_to(target: float, curve, algorithm, shapes) -> float:
    """Bits that one worker sends until the distance is `target` of the first."""
    reached = curve.steps[np.flatnonzero(curve.loss <= target * curve.loss[0])[0]]
    up = (m.nbytes(shapes) for t in range(int(reached)) for m in algorithm.messages(t) if m.kind == "to_server")
    return 8 * sum(up)


def test_the_saddle_point_is_where_the_mean_field_vanishes():
    """And the field is what finite differences of the game's value say."""
    task = game(mu=0.1)
    out = np.empty((4, 64))
    task.gradients(np.repeat(task.saddle[None], 4, axis=0), np.arange(4), np.zeros(4, np.int64), out)
    np.testing.assert_allclose(out.mean(axis=0), 0, atol=1e-12)

    def value(z: np.ndarray, i: int) -> float:
        x, y = z[:32], z[32:]
        b, c = task.shifts[i, :32], task.shifts[i, 32:]
        return 0.05 * x @ x + x @ task.matrices[i] @ y - 0.05 * y @ y + b @ x - c @ y

    z, h = np.random.default_rng(0).standard_normal(64), 1e-5
    task.gradients(np.repeat(z[None], 4, axis=0), np.arange(4), np.zeros(4, np.int64), out)
    for at, sign in ((3, 1.0), (40, -1.0)):
        ahead, behind = z.copy(), z.copy()
        ahead[at], behind[at] = ahead[at] + h, behind[at] - h
        assert out[2, at] == pytest.approx(sign * (value(ahead, 2) - value(behind, 2)) / (2 * h), rel=1e-6)


def test_gradient_descent_leaves_the_saddle_and_extragradient_reaches_it():
    """The reason for extragradient: on a bilinear game plain steps spiral outwards."""
    task = game()
    plain, _ = run("data_parallel", task, 400, 0.2)
    extra, _ = run("extragradient", task, 2000, 0.5)
    assert plain.loss[-1] > plain.loss[0]
    assert extra.loss[-1] < 1e-4 * extra.loss[0]


def test_masha_converges_linearly_with_unbiased_rand_k():
    """The logarithm of the distance falls on a line once the fast directions are gone: last third as the middle one."""
    curve, _ = run("masha", game(), 3000, 0.2)
    third = len(curve.loss) // 3
    logs = np.log(curve.loss[[third, 2 * third, 3 * third]])
    assert logs[0] - logs[1] > 1
    assert (logs[1] - logs[2]) / (logs[0] - logs[1]) == pytest.approx(1.0, abs=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_masha_needs_fewer_bits_than_extragradient(seed):
    """Bits to a hundredth of the first squared distance, each method at the best of five step sizes."""
    task, target = game(seed=seed, data_seed=seed), 1e-2

    def best(id: str, steps: int, **given: object) -> float:
        found = []
        for lr in (0.05, 0.1, 0.2, 0.4, 0.8):
            curve, algorithm = run(id, task, steps, lr, seed, **given)
            if curve.diverged_at is None and (curve.loss <= target * curve.loss[0]).any():
                found.append(bits_to(target, curve, algorithm, task.shapes))
        return min(found)

    assert best("masha", 6000) < best("extragradient", 1500)


def test_masha_that_loses_nothing_and_always_refreshes_is_extragradient():
    """With the identity and 1 − τ = 1, w is z, and both take the same steps to 1e-12."""
    task = game()
    masha, _ = run("masha", task, 50, 0.3, compressor=None, refresh=1.0)
    extra, _ = run("extragradient", task, 50, 0.3)
    np.testing.assert_allclose(masha.loss, extra.loss, atol=1e-12 * extra.loss[0])


def test_masha_refuses_what_is_biased():
    """One clear line a compressor."""
    with pytest.raises(BadInput, match="compressor topk is biased"):
        run("masha", game(), 1, 0.1, compressor="topk")


def test_same_seed_gives_the_same_bits():
    """And another draws other positions."""
    first, again, other = (run("masha", game(), 100, 0.1, seed)[0].loss for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
