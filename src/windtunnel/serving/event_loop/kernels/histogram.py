"""The histogram of times between tokens."""

# Numba's decorators and record arrays have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return,call-overload,no-untyped-call"

from __future__ import annotations

import numpy as np

from windtunnel.jit import helper, plain
from windtunnel.serving.event_loop.kernels.records import HISTOGRAM_BINS, HISTOGRAM_LOW_S, HISTOGRAM_PER_DECADE
from windtunnel.serving.event_loop.kernels.state import Array


@helper
def add_gaps(histogram: Array, first: float, slope: float, steps: int, weight: int) -> None:
    """Add `weight` times between tokens for each of `steps` steps to the histogram; alike steps fall in one bin."""
    done = 0
    while done < steps:
        seconds = first + slope * done
        at = int(np.floor(np.log10(seconds / HISTOGRAM_LOW_S) * HISTOGRAM_PER_DECADE))
        at = min(max(at, 0), HISTOGRAM_BINS - 1)
        upto = steps
        if slope > 0.0 and at < HISTOGRAM_BINS - 1:
            edge = HISTOGRAM_LOW_S * 10.0 ** ((at + 1) / HISTOGRAM_PER_DECADE)
            upto = min(steps, max(done + 1, int(np.ceil((edge - first) / slope))))
        histogram[at] += weight * (upto - done)
        done = upto


add_gaps_in_python = plain(add_gaps)
"""The same for loops that are not jitted."""
