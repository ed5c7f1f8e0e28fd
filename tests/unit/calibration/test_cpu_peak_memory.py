"""Peaks of the CPU allocator: what other threads free counts, and a second look finds the same."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

pytest.importorskip("torch", reason="counts PyTorch's allocations")

from windtunnel.calibration.allocated import peak_on_cpu

MIB = 2**20


def _handed_over(held: list[object]) -> None:
    """The last reference to a tensor goes in another thread, as gloo's do."""
    import torch

    held.append(torch.empty(8 * MIB, dtype=torch.uint8))
    other = threading.Thread(target=held.clear)
    other.start()
    other.join()


def _build() -> Callable[[], None]:
    import torch

    kept = torch.empty(4 * MIB, dtype=torch.uint8)

    def step() -> None:
        held: list[object] = []
        for _ in range(5):
            _handed_over(held)
        assert kept is not None

    return step


def test_what_other_threads_free_is_not_in_the_peak() -> None:
    peaks = [peak_on_cpu(_build)[1] for _ in range(2)]
    assert peaks[0] == peaks[1]
    assert 12 * MIB <= peaks[0] < 12.1 * MIB
