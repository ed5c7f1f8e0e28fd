"""Laws that every compressor obeys: bytes, messages, rows that do not mix, seeds."""

from __future__ import annotations

from math import ceil

import numpy as np
import pytest

from windtunnel.errors import BadInput, ProblemList
from windtunnel.learning.compressors import COMPRESSORS
from windtunnel.learning.compressors._bits import Field, packed, unpacked
from windtunnel.learning.compressors.base import Compressor
from windtunnel.learning.randomness import Draws
from windtunnel.techniques.knobs import with_defaults

SHAPES = ((7, 5), (13,), (4, 3, 2), (1,))
ENTRIES = 7 * 5 + 13 + 4 * 3 * 2 + 1

SETTINGS = [
    ("cast", {"bits": 16}),
    ("cast", {"bits": 32}),
    ("cast", {"bits": 64}),
    ("topk", {"fraction": 0.1}),
    ("topk", {"fraction": 0.25, "chunk": 16, "bits": 16}),
    ("topk", {"fraction": 1.0, "bits": 64}),
    ("quantised", {}),
    ("quantised", {"bits": 8, "rounding": "nearest", "scale": "max", "block": 0}),
    ("quantised", {"bits": 3, "block": 10, "scale_bits": 16}),
    ("quantised", {"bits": 1, "grid": "mid-rise", "scale": "max"}),
    ("quantised", {"bits": 2, "grid": "mid-rise", "scale": "max", "rounding": "nearest"}),
    ("float4", {}),
    ("float4", {"format": "e2m1", "block": 9, "rounding": "stochastic"}),
    ("randk", {"fraction": 0.2}),
    ("randk", {"fraction": 0.1, "shared": False, "scaled": False, "bits": 16}),
    ("sign", {}),
    ("sign", {"scale": "l2", "block": 16}),
    ("ternary", {}),
    ("ternary", {"clip": 0.0}),
    ("ternary", {"clip": 0.0, "bits": 1.6}),
    ("dynamic_tree8", {}),
    ("dynamic_tree8", {"kind": "linear", "block": 20}),
    ("lattice_shift", {}),
    ("lattice_shift", {"bits": 3, "block": 12}),
    ("low_rank", {}),
    ("low_rank", {"rank": 1, "bits": 16}),
    ("sketch", {"fraction": 0.1, "cells": 0.5}),
    ("dct", {"k": 3, "chunk": 4}),
    ("dct", {"k": 1, "chunk": 64, "bits": 16}),
    ("chain", {"fraction": 0.2, "chunk": 16}),
    ("chain", {"fraction": 0.2, "select": "randk", "bits": 4, "rounding": "stochastic"}),
    ("chain", {"fraction": 0.2, "select": "dct", "code": "sign", "chunk": 16}),
]
IDS = [f"{id}-{'-'.join(map(str, knobs.values()))}" for id, knobs in SETTINGS]


def built(id: str, **given: object) -> Compressor:
    """A compressor with defaults where nothing is given."""
    kind = COMPRESSORS.get(id)
    problems = ProblemList()
    knobs = with_defaults(kind.knobs, given, id, problems)
    problems.raise_if_any()
    return kind.build(knobs)


def rows(count: int, dtype: type = np.float32, seed: int = 1) -> np.ndarray:
    """Values with magnitudes over a few powers of ten, and some zeros."""
    random = np.random.default_rng(seed)
    out = random.standard_normal((count, ENTRIES)) * 10.0 ** random.uniform(-3, 1, (count, ENTRIES))
    out[:, 3] = 0.0
    return out.astype(dtype)


def test_every_compressor_is_tested():
    """A new file has to stand among the settings."""
    assert {id for id, _ in SETTINGS} == set(COMPRESSORS.list())


@pytest.mark.parametrize(("id", "knobs"), SETTINGS, ids=IDS)
def test_what_receivers_get_is_what_the_message_says(id, knobs):
    """`decoded` of all rows at once is `decode(encode(row))` of each, bit for bit, and changes nothing given."""
    compressor, draws, values = built(id, **knobs), Draws(3), rows(4)
    before = values.copy()
    workers = np.array([5, 0, 2, 9])
    got = compressor.decoded(values, SHAPES, draws, workers, 11)
    assert got.dtype == values.dtype
    assert got is not values
    np.testing.assert_array_equal(values, before)
    for row, worker, seen in zip(values, workers, got, strict=True):
        message = compressor.encode(row, SHAPES, draws, int(worker), 11)
        np.testing.assert_array_equal(compressor.decode(message, SHAPES, np.float32, draws, int(worker), 11), seen)


@pytest.mark.parametrize(("id", "knobs"), SETTINGS, ids=IDS)
@pytest.mark.parametrize("shapes", [SHAPES, ((ENTRIES,),), ((64, 64), (64,), (1000, 3))], ids=["four", "one", "large"])
def test_bytes_are_those_of_the_message(id, knobs, shapes):
    """The law over shapes is the length of a real message, but for what fills its last byte."""
    compressor = built(id, **knobs)
    entries = sum(int(np.prod(shape)) for shape in shapes)
    row = np.random.default_rng(0).standard_normal(entries).astype(np.float32)
    assert len(compressor.encode(row, shapes, Draws(1), 0, 0)) == ceil(compressor.nbytes(shapes))


@pytest.mark.parametrize(("id", "knobs"), SETTINGS, ids=IDS)
def test_rows_do_not_mix_and_draws_belong_to_workers(id, knobs):
    """Any subset of rows, in any order, is decoded to the same bits; so is a second call."""
    compressor, values = built(id, **knobs), rows(6, np.float64)
    workers = np.arange(6)
    whole = compressor.decoded(values, SHAPES, Draws(2), workers, 4)
    np.testing.assert_array_equal(compressor.decoded(values, SHAPES, Draws(2), workers, 4), whole)
    some = np.array([4, 1])
    np.testing.assert_array_equal(compressor.decoded(values[some], SHAPES, Draws(2), workers[some], 4), whole[some])


@pytest.mark.parametrize(("id", "knobs"), SETTINGS, ids=IDS)
def test_zeros_stay_finite_and_small(id, knobs):
    """A row of zeros makes no NaN and no large number."""
    got = built(id, **knobs).decoded(np.zeros((2, ENTRIES)), SHAPES, Draws(2), np.arange(2), 0)
    assert np.abs(got).max() < 1e-6


UNBIASED = [(id, knobs) for id, knobs in SETTINGS if id != "cast" and built(id, **knobs).unbiased]


@pytest.mark.parametrize(("id", "knobs"), UNBIASED, ids=[f"{i}-{'-'.join(map(str, k.values()))}" for i, k in UNBIASED])
def test_unbiased_compressors_are(id, knobs):
    """The mean over 4,000 draws is within five standard errors of the value (a 2·10⁻⁷ chance an entry)."""
    random = np.random.default_rng(5)
    compressor, row = built(id, **knobs), random.uniform(0.3, 1.0, ENTRIES) * random.choice([-1.0, 1.0], ENTRIES)
    draws, at_once = 4000, 1 if "randk" in (id, knobs.get("select")) else 500  # all workers draw the same positions
    got = np.stack(
        [
            compressor.decoded(np.tile(row, (at_once, 1)), SHAPES, Draws(7), np.arange(at_once), step)
            for step in range(draws // at_once)
        ]
    ).reshape(draws, ENTRIES)
    error = got.std(axis=0) / np.sqrt(draws)
    away = np.abs(got.mean(axis=0) - row)
    assert (away <= 5 * error + 2e-7 * np.abs(row).max()).all()


def test_one_bit_has_no_room_for_zero():
    """One clear line."""
    with pytest.raises(BadInput, match="one bit has no room for zero"):
        built("quantised", bits=1)


@pytest.mark.parametrize("seed", range(20))
def test_bit_streams_come_back(seed):
    """Fields of any bits and counts, one after another without gaps."""
    random = np.random.default_rng(seed)
    fields, numbers = [], []
    for _ in range(5):
        count, bits = int(random.integers(0, 40)), int(random.integers(1, 65))
        if random.random() < 0.4:
            bits = int(random.choice([16, 32, 64]))
            fields.append(Field(count, bits, real=True))
            numbers.append(random.standard_normal(count).astype(f"f{bits // 8}"))
        else:
            fields.append(Field(count, bits))
            numbers.append(
                random.integers(0, 2**bits, count, dtype=np.uint64, endpoint=False)
                if bits < 64
                else random.integers(0, 2**63, count, dtype=np.uint64)
            )
    message = packed(tuple(fields), tuple(numbers))
    assert len(message) == ceil(sum(field.total_bits for field in fields) / 8)
    for given, back in zip(numbers, unpacked(tuple(fields), message), strict=True):
        np.testing.assert_array_equal(back, given)
