"""Inner optimizers against their formulas."""

from __future__ import annotations

import numpy as np
import pytest

from windtunnel.learning.inner import INNER
from windtunnel.learning.inner.adamw import AdamW
from windtunnel.learning.inner.sgd import SGD


def _run(optimizer, params: np.ndarray, steps: int = 5, strided: bool = False) -> np.ndarray:
    draws = np.random.default_rng(2)
    wide = np.zeros((len(params), 2 * params.shape[1]))
    x = wide[:, ::2] if strided else params.copy()
    x[:] = params
    state = {name: np.zeros_like(params) for name in optimizer.states}
    for step in range(steps):
        optimizer.step(x, draws.normal(size=params.shape), state, 0.01, step)
    return np.array(x)


def _adamw(params: np.ndarray, steps: int, decay: float) -> np.ndarray:
    draws, m, v = np.random.default_rng(2), 0.0, 0.0
    for t in range(1, steps + 1):
        g = draws.normal(size=params.shape)
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        params = params * (1 - 0.01 * decay) - 0.01 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.99**t)) + 1e-8)
    return params


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adamw_follows_its_formula(decay: float) -> None:
    start = np.random.default_rng(1).normal(size=(3, 11_000))
    np.testing.assert_allclose(_run(AdamW(weight_decay=decay), start), _adamw(start, 5, decay), rtol=1e-9, atol=1e-12)


def test_sgd_with_momentum_follows_torchs_form() -> None:
    start = np.random.default_rng(1).normal(size=(3, 11_000))
    draws, u, x = np.random.default_rng(2), 0.0, start
    for _ in range(5):
        u = 0.9 * u + draws.normal(size=start.shape)
        x = x * (1 - 0.01 * 0.1) - 0.01 * u
    np.testing.assert_allclose(_run(SGD(momentum=0.9, weight_decay=0.1), start), x, rtol=1e-12)


@pytest.mark.parametrize("optimizer", INNER.list())
def test_views_that_are_not_contiguous_are_stepped_in_place_with_the_same_bits(optimizer: str) -> None:
    kind = INNER.get(optimizer)
    built = kind.build({name: knob.default for name, knob in kind.knobs.items()})
    start = np.random.default_rng(1).normal(size=(3, 6_000))
    assert np.array_equal(_run(built, start), _run(built, start, strided=True))
