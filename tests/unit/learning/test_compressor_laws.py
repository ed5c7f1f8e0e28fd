"""Laws of compressors from theory: contraction, variance, error feedback, and the bytes that papers state."""

from __future__ import annotations

import numpy as np
import pytest

from windtunnel.learning.compressors.float4 import MAGNITUDES, Float4
from windtunnel.learning.compressors.quantised import Quantised
from windtunnel.learning.compressors.topk import TopK
from windtunnel.learning.randomness import Draws

D = 4096
ONE = ((D,),)


def gaussians(rows: int, seed: int = 0) -> np.ndarray:
    """Standard normal rows, shape (rows, D)."""
    return np.random.default_rng(seed).standard_normal((rows, D))


def left(values: np.ndarray, got: np.ndarray) -> np.ndarray:
    """Share of the squared norm that a message leaves out, one a row."""
    return np.asarray(((values - got) ** 2).sum(axis=1) / (values**2).sum(axis=1))


@pytest.mark.parametrize("fraction", [0.01, 0.1, 0.5])
def test_topk_contracts_at_least_as_the_mean(fraction):
    """‖v − C(v)‖² ≤ (1 − k/d)‖v‖², with equality where all magnitudes are equal (Stich et al. 2018, lemma A.1)."""
    topk, values = TopK(fraction=fraction, bits=64), gaussians(5)
    k = topk.sent(ONE)
    assert (left(values, topk.decoded(values, ONE, Draws(0), np.arange(5), 0)) < 1 - k / D).all()
    even = np.sign(values)
    np.testing.assert_allclose(left(even, topk.decoded(even, ONE, Draws(0), np.arange(5), 0)), 1 - k / D, rtol=1e-12)


def test_topk_by_chunk_sends_k_of_every_chunk():
    """Each chunk keeps its own largest; the last, shorter one keeps the same share."""
    topk, values = TopK(fraction=0.25, chunk=8), gaussians(2)[:, :20]
    got = topk.decoded(values, ((20,),), Draws(0), np.arange(2), 0) != 0
    assert (got[:, :8].sum(axis=1) == 2).all()
    assert (got[:, 8:16].sum(axis=1) == 2).all()
    assert (got[:, 16:].sum(axis=1) == 1).all()
    assert np.abs(values[0, :8])[got[0, :8]].min() > np.abs(values[0, :8])[~got[0, :8]].max()


def test_topk_positions_take_the_bits_of_their_chunk():
    """4,096 entries a chunk: 12 bits; the whole of 2^20 + 1 entries: 21."""
    assert TopK(0.01, chunk=4096, bits=16).nbytes(((1 << 20,),)) == 41 * 256 * (16 + 12) / 8
    assert TopK(0.01, bits=32).nbytes((((1 << 20) + 1,),)) == round(0.01 * ((1 << 20) + 1)) * (32 + 21) / 8


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_qsgd_variance_is_below_its_bound(bits):
    """E‖Q(v) − v‖² ≤ min(d/s², √d/s)‖v‖², s levels a side (Alistarh et al. 2017, lemma 3.1)."""
    values = np.tile(gaussians(1), (200, 1))
    got = Quantised(bits=bits, block=0).decoded(values, ONE, Draws(1), np.arange(200), 0)
    s = 2 ** (bits - 1) - 1
    assert left(values, got).mean() <= min(D / s**2, np.sqrt(D) / s)


@pytest.mark.parametrize("bits", [2, 4])
def test_qsgd_variance_is_what_its_probabilities_say(bits):
    """Σ (step·p)(step·(1 − p)) over entries, p the place between two points: within 3 %."""
    values = np.tile(gaussians(1), (400, 1))
    got = Quantised(bits=bits, block=0).decoded(values, ONE, Draws(1), np.arange(400), 0)
    step = np.linalg.norm(values[0]) / (2 ** (bits - 1) - 1)
    p = np.modf(np.abs(values[0]) / step)[0]
    expected = (step**2 * p * (1 - p)).sum()
    assert ((got - values) ** 2).sum(axis=1).mean() == pytest.approx(expected, rel=0.03)


def test_blocks_make_the_variance_smaller():
    """Scales of 64 entries against one of all: QSGD's reason for buckets."""
    values = np.tile(gaussians(1), (50, 1))
    whole, blocked = (
        left(values, Quantised(bits=4, block=b).decoded(values, ONE, Draws(1), np.arange(50), 0)) for b in (0, 64)
    )
    assert blocked.mean() < 0.2 * whole.mean()


@pytest.mark.parametrize("grid", ["mid-tread", "mid-rise"])
@pytest.mark.parametrize("bits", [2, 3, 8])
def test_rounding_to_nearest_is_off_by_at_most_half_a_step(grid, bits):
    """The largest magnitude is a point of the grid, so nothing is cut off."""
    values = gaussians(3)
    got = Quantised(bits=bits, rounding="nearest", scale="max", block=0, grid=grid).decoded(
        values, ONE, Draws(0), np.arange(3), 0
    )
    levels = 2**bits - (2 if grid == "mid-tread" else 1)
    step = 2 * np.abs(values).max(axis=1, keepdims=True) / levels
    assert (np.abs(got - values) <= step * (0.5 + 1e-6)).all()


@pytest.mark.parametrize("format", ["e3m0", "e2m1"])
def test_numbers_of_the_format_come_through_unchanged(format):
    """All 15 numbers of a four-bit format, times any power of two."""
    row = np.concatenate([MAGNITUDES[format], -MAGNITUDES[format]])[None, :] * 0.125
    got = Float4(format=format).decoded(row, ((16,),), Draws(0), np.arange(1), 0)
    np.testing.assert_array_equal(got, row)


def test_e3m0_rounds_to_the_nearest_power_of_two():
    """Relative error is at most a third (half way between 1 and 2) above the smallest number, 1/64 of the largest."""
    values = gaussians(4)
    got = Float4().decoded(values, ONE, Draws(0), np.arange(4), 0)
    largest = np.abs(values).max(axis=1, keepdims=True)
    normal = np.abs(values) >= largest / 64
    assert (np.abs(got - values)[normal] <= np.abs(values)[normal] * (1 / 3 + 1e-6)).all()
    assert (np.abs(got - values) <= np.where(normal, np.inf, largest / 128 * (1 + 1e-6))).all()


COMPRESSED = [TopK(0.01), TopK(0.05, chunk=256, bits=16), Quantised(bits=2, rounding="nearest", scale="max"), Float4()]


@pytest.mark.parametrize("compressor", COMPRESSED, ids=lambda c: c.id)
def test_error_feedback_loses_nothing(compressor):
    """Σ sent + what is kept = Σ given, to 1e-14 of its largest entry (Karimireddy et al. 2019)."""
    kept, sent, given = np.zeros((3, D)), np.zeros((3, D)), np.zeros((3, D))
    for step in range(30):
        new = gaussians(3, seed=step)
        values = new + kept
        got = compressor.decoded(values, ONE, Draws(0), np.arange(3), step)
        kept = values - got
        sent += got
        given += new
    assert np.abs(sent + kept - given).max() < 1e-14 * 30 * np.abs(given).max()
