"""Arrays that are made once and written in every step: fresh memory costs more than the arithmetic on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


class Kept:
    """Arrays by name, as long as the most rows that were asked for."""

    __slots__ = ("_arrays", "dtype")

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self.dtype = np.dtype(dtype)
        self._arrays: dict[str, npt.NDArray[Any]] = {}

    def __call__(self, name: str, *shape: int, dtype: npt.DTypeLike | None = None) -> npt.NDArray[Any]:
        """The array `name` of this shape; the first axis is the rows. Zeros when made, else what was last written."""
        array = self._arrays.get(name)
        if array is None or len(array) < shape[0] or array.shape[1:] != shape[1:]:
            array = np.zeros(shape, self.dtype if dtype is None else dtype)
            self._arrays[name] = array
        return array[: shape[0]]
