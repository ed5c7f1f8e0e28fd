"""Laws of compressors from theory: contraction, variance, error feedback, and the bytes that papers state."""

from __future__ import annotations

import numpy as np
import pytest

from windtunnel.learning.compressors.chain import Chain
from windtunnel.learning.compressors.dct import Dct, cosines, forward
from windtunnel.learning.compressors.dynamic_tree8 import DynamicTree8
from windtunnel.learning.compressors.float4 import MAGNITUDES, Float4
from windtunnel.learning.compressors.lattice_shift import LatticeShift, lattice_points
from windtunnel.learning.compressors.low_rank import LowRank
from windtunnel.learning.compressors.quantised import Quantised
from windtunnel.learning.compressors.randk import RandK
from windtunnel.learning.compressors.sign import Sign
from windtunnel.learning.compressors.sketch import Sketch
from windtunnel.learning.compressors.ternary import Ternary
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


def test_signs_leave_what_the_law_says():
    """1 − ‖v‖₁²/(d‖v‖²) with the l1 scale, 1 − 2/π = 0.363 for Gaussians; 2 − 2√(2/π) = 0.404 with DeepSpeed's."""
    values = gaussians(20)
    l1, l2 = (
        left(values, Sign(scale=scale, block=10**9).decoded(values, ONE, Draws(0), np.arange(20), 0))
        for scale in ("l1", "l2")
    )
    np.testing.assert_allclose(l1, 1 - np.abs(values).sum(axis=1) ** 2 / (D * (values**2).sum(axis=1)), rtol=1e-6)
    assert l1.mean() == pytest.approx(1 - 2 / np.pi, abs=0.01)
    assert l2.mean() == pytest.approx(2 - 2 * np.sqrt(2 / np.pi), abs=0.01)


def test_variance_of_rand_k():
    """(d/k − 1)‖v‖² where values are scaled (Horváth et al. 2019): within 3 % over 400 draws."""
    values, k = gaussians(1), 409
    randk = RandK(fraction=k / D, bits=64)
    lost = [left(values, randk.decoded(values, ONE, Draws(1), np.arange(1), step))[0] for step in range(400)]
    assert np.mean(lost) == pytest.approx(D / k - 1, rel=0.03)


def test_sums_of_rand_k_encode_the_sum():
    """All workers send the same positions, so an all-reduce of the messages is the message of the sum."""
    values, randk = gaussians(4), RandK(fraction=0.1, bits=64)
    each = randk.decoded(values, ONE, Draws(1), np.arange(4), 9).sum(axis=0)
    whole = randk.decoded(values.sum(axis=0, keepdims=True), ONE, Draws(1), np.arange(1), 9)[0]
    np.testing.assert_allclose(each, whole, atol=1e-12)


def test_variance_of_ternary():
    """E‖q − g‖² = |g|_max‖g‖₁ − ‖g‖² where nothing is clipped (bar: 1 %)."""
    values = np.tile(gaussians(1), (400, 1))
    got = Ternary(clip=0).decoded(values, ONE, Draws(1), np.arange(400), 0)
    one = np.abs(values[0])
    assert ((got - values) ** 2).sum(axis=1).mean() == pytest.approx(one.max() * one.sum() - (one**2).sum(), rel=0.01)


def test_clipping_bounds_the_scale_of_ternary():
    """The scale is at most 2.5 standard deviations of the tensor, so the variance falls."""
    values = gaussians(1)
    got = Ternary().decoded(values, ONE, Draws(1), np.arange(1), 0)
    assert np.abs(got).max() == pytest.approx(2.5 * values.std(), rel=1e-6)


@pytest.mark.parametrize("count", [10_000, 100_000])
def test_dynamic_tree_is_within_two_per_cent(count):
    """Mean relative error of a Gaussian below 2 %, as norm and entry by entry; the linear type is worse by entry."""
    values = np.random.default_rng(0).standard_normal((1, count))
    tree, linear = (
        DynamicTree8(kind=kind).decoded(values, ((count,),), Draws(0), np.arange(1), 0) for kind in ("tree", "linear")
    )
    relative = (np.abs(tree - values) / np.abs(values)).mean()
    assert relative < 0.02
    assert np.sqrt(left(values, tree)[0]) < 0.02
    assert (np.abs(linear - values) / np.abs(values)).mean() > relative


def test_lattice_error_is_uniform_over_half_a_step():
    """Mean zero, variance step²/12, nothing beyond half a step: over shifts, for one number anywhere."""
    shifts = (np.arange(10_000) + 0.5) / 10_000 - 0.5
    for value in (0.0, 0.3, -7.77):
        error = 0.25 * (lattice_points(np.array(value), np.array(0.25), shifts) + shifts) - value
        assert np.abs(error).max() <= 0.125 * (1 + 1e-9)
        assert error.mean() == pytest.approx(0, abs=1e-5)
        assert error.var() == pytest.approx(0.25**2 / 12, rel=1e-3)


def test_lattice_messages_are_off_by_at_most_half_a_step():
    """The step of a block is its range over 2^bits − 2."""
    values = gaussians(3)
    got = LatticeShift(bits=6, block=256).decoded(values, ONE, Draws(0), np.arange(3), 0)
    blocks = values.reshape(3, -1, 256)
    step = (blocks.max(axis=2) - blocks.min(axis=2)) / 62
    assert (np.abs(got - values).reshape(3, -1, 256) <= step[:, :, None] * (0.5 + 1e-5)).all()


def test_one_shift_serves_all_entries():
    """Two entries a whole number of steps apart stay exactly so: their errors are the same."""
    values = np.linspace(-1, 1, 63)[None, :]  # 62 steps: the lattice of 6 bits
    got = LatticeShift(bits=6).decoded(values, ((63,),), Draws(0), np.arange(1), 0)
    error = (got - values)[0]
    assert np.ptp(error) < 1e-6
    assert np.abs(error).max() > 1e-4


def test_sum_of_sketches_is_the_sketch_of_the_sum():
    """Peeling returns the sum of what workers kept, to 1e-12, while cells are over 1.23 times the joined positions."""
    workers, sketch, draws = 6, Sketch(fraction=0.01, cells=0.1, bits=64), Draws(4)
    values = gaussians(workers)
    cells, support = sketch.parts(values, ONE, draws, np.arange(workers), 3)
    joined = support.any(axis=0)
    assert joined.sum() * 1.23 < cells.shape[1]
    got, estimated = sketch.peeled(cells.sum(axis=0), joined, ONE, draws, 3)
    kept = TopK(fraction=0.01, bits=64).decoded(values, ONE, draws, np.arange(workers), 3)
    assert estimated == 0
    np.testing.assert_allclose(got, kept.sum(axis=0), atol=1e-12)


def test_a_crowded_sketch_only_estimates():
    """With cells below the positions, peeling ends early and says how many values it could not tell."""
    sketch = Sketch(fraction=0.2, cells=0.1, bits=64)
    cells, support = sketch.parts(gaussians(1), ONE, Draws(4), np.arange(1), 3)
    assert sketch.peeled(cells[0], support[0] > 0, ONE, Draws(4), 3)[1] > 0.5 * support.sum()


def test_cosine_transforms_are_orthonormal():
    """Norms stay, so leaving out coefficients leaves out exactly their squares."""
    np.testing.assert_allclose(cosines(64) @ cosines(64).T, np.eye(64), atol=1e-12)
    shape, values = (48, 80), gaussians(2)[:, : 48 * 80]
    dct = Dct(k=5, chunk=16, bits=64)
    coefficients = forward(values, dct.chunks(shape))
    got = dct.decoded(values, (shape,), Draws(0), np.arange(2), 0)
    largest = np.sort(coefficients**2, axis=2)[:, :, :-5].sum(axis=(1, 2))
    np.testing.assert_allclose(((values - got) ** 2).sum(axis=1), largest, rtol=1e-10)


def test_chunks_have_the_largest_divisor_below_their_edge():
    """DeMo: 48 × 80 at 64 is cut into 48 × 40; a prime is cut into single entries."""
    chunks = Dct(chunk=64).chunks((48, 80))
    assert (chunks.height, chunks.width) == (48, 40)
    assert Dct(chunk=64).chunks((101,)).width == 1


def test_low_rank_of_a_low_rank_matrix_is_exact():
    """A matrix of rank 2 comes through rank 2 unchanged, and vectors do so always."""
    random = np.random.default_rng(0)
    matrix = random.standard_normal((30, 2)) @ random.standard_normal((2, 20))
    values = np.concatenate([matrix.ravel(), random.standard_normal(7)])[None, :]
    got = LowRank(rank=2, bits=64).decoded(values, ((30, 20), (7,)), Draws(0), np.arange(1), 0)
    np.testing.assert_allclose(got, values, atol=1e-12)


def test_bytes_of_sparseloco():
    """k(2 + 12) bits and one 32-bit scale a chunk of 4,096."""
    chain = Chain(
        select=TopK(fraction=1 / 64, chunk=4096),
        code=Quantised(bits=2, grid="mid-rise", scale="max", rounding="nearest", block=0),
    )
    assert chain.nbytes(((10 * 4096,),)) == 10 * (64 * (2 + 12) + 32) / 8


COMPRESSED = [
    TopK(0.01),
    TopK(0.05, chunk=256, bits=16),
    Quantised(bits=2, rounding="nearest", scale="max"),
    Float4(),
    Sign(),
    RandK(0.1, scaled=False),
    LowRank(),
    Dct(k=4),
    Sketch(fraction=0.02),
]


@pytest.mark.parametrize("compressor", COMPRESSED, ids=lambda c: f"{c.id}-{c.nbytes(ONE):.0f}")
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
