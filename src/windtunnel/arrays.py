"""Names for the array types that every package passes around."""

from __future__ import annotations

from typing import Any

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
