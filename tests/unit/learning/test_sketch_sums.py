"""The decoded sum of sketches is the sum of the sparsified gradients wherever peeling ends."""

from __future__ import annotations

import numpy as np
import pytest

from windtunnel.learning.compressors import COMPRESSORS
from windtunnel.learning.randomness import Draws

ENTRIES = 4096
MISSED = pytest.mark.xfail(strict=True, reason="cells of 32 bits round: 4.5e-7 of the largest entry at most, not 1e-12")


@pytest.mark.parametrize("bits", [64, pytest.param(32, marks=MISSED)])
def test_sums_of_sketches_decode_to_sums_of_what_was_kept(bits: int) -> None:
    kind = COMPRESSORS.get("sketch")
    knobs = {name: knob.default for name, knob in kind.knobs.items()}
    wire, shapes, ended, worst = kind.build(knobs | {"bits": bits}), ((ENTRIES,),), 0, 0.0
    for workers in (2, 8):
        for seed in range(20):
            values = np.random.default_rng(seed).standard_normal((workers, ENTRIES)) ** 5
            cells, support = wire.parts(values, shapes, Draws(seed), np.arange(workers), 0)
            joined = support.any(axis=0)
            total, estimated = wire.peeled(cells.sum(axis=0), joined, shapes, Draws(seed), 0)
            wanted = np.where(support > 0, values, 0.0).sum(axis=0)
            if not estimated:
                ended += 1
                worst = max(worst, float(np.max(np.abs(total - wanted)) / np.max(np.abs(wanted))))
    assert ended >= 30
    assert worst <= 1e-12
