"""Names for the array types that every package passes around, and records of arrays as kernels take them."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
"""Quantities: seconds, bytes, FLOP, shares."""
Ints = npt.NDArray[np.int64]
"""Counts and positions."""
Int32s = npt.NDArray[np.int32]
"""Columns of the task and instruction tables."""
Rows = npt.NDArray[np.int64]
"""Indices of rows of a table."""
Mask = npt.NDArray[np.bool_]
"""One truth value a row."""
Reals = npt.NDArray[np.floating[Any]]
"""Parameters and gradients of a task, in the precision that the task computes in."""

Record = TypeVar("Record", bound=tuple[Any, ...])


def uniform(record: Record) -> Record:
    """A named tuple as a kernel takes it, so that one specialisation of the kernel serves every caller.

    Numbers are of the declared types; arrays too, and they lie in order and can be written to.
    """
    fields = zip(_declared(type(record)), record, strict=True)
    own: Any = type(record)
    found: Record = own(*(_as_declared(kind, value) for kind, value in fields))
    return found


@cache
def _declared(record: type[Any]) -> tuple[Any, ...]:
    """The type of each field; of an array, the NumPy type of its elements."""
    hints = get_type_hints(record)
    kinds = [hints[name] for name in record._fields]
    return tuple(np.dtype(get_args(get_args(k)[1])[0]) if get_origin(k) is np.ndarray else k for k in kinds)


def _as_declared(kind: Any, value: Any) -> Any:
    if isinstance(kind, np.dtype):
        return np.require(value, kind, ["C", "W"])
    if isinstance(value, tuple):
        return uniform(value)
    return kind(value) if kind in (float, int, bool) else value
