"""Records for kernels: one specialisation, whatever a caller puts into them."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt
import pytest

from windtunnel.arrays import Floats, Ints, uniform


class Inner(NamedTuple):
    flags: npt.NDArray[np.bool_]
    share: float


class Outer(NamedTuple):
    seconds: Floats
    counts: Ints
    table: Floats
    inner: Inner
    rate: float
    on: bool
    most: int


def read_only(values: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    values.flags.writeable = False
    return values


EXACT = Outer(np.arange(3.0), np.arange(3), np.ones((2, 3)), Inner(np.ones(2, bool), 0.5), 2.0, True, 7)
OTHERS = {
    "whole numbers": EXACT._replace(seconds=np.arange(3), rate=2, on=1),
    "strides": EXACT._replace(seconds=np.arange(6.0)[::2] / 2, table=np.ones((3, 2)).T),
    "read only": EXACT._replace(counts=read_only(np.arange(3))),
    "narrow": EXACT._replace(counts=np.arange(3, dtype=np.int32), most=np.int64(7)),
    "inside": EXACT._replace(inner=Inner(read_only(np.ones(2, np.int64)), np.float32(0.5))),
}


@pytest.mark.parametrize("record", [pytest.param(record, id=id) for id, record in OTHERS.items()])
def test_records_of_the_same_content_are_of_one_type(record: Outer) -> None:
    assert numba.typeof(record) != numba.typeof(EXACT)
    found = uniform(record)
    assert numba.typeof(found) == numba.typeof(EXACT)
    np.testing.assert_equal(found, EXACT)


def test_arrays_that_are_right_are_not_copied() -> None:
    assert uniform(EXACT).seconds is EXACT.seconds
