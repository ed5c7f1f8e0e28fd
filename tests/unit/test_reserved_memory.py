"""Reserved memory: the block allocator at tensor level, and the traces that are replayed through it."""

from __future__ import annotations

import numpy as np
import pytest

from windtunnel.engine.allocator import Replay, replay_tensors

MIB = 2**20


def replay(events: list[tuple[int, int, int]], **options: bool | int) -> Replay:
    """Events as (bytes, tensor, stream)."""
    table = np.array(events, np.int64).reshape(-1, 3)
    return replay_tensors(
        np.ascontiguousarray(table[:, 0]), np.ascontiguousarray(table[:, 1]), np.ascontiguousarray(table[:, 2]),
        **options,  # type: ignore[arg-type]
    )  # fmt: skip


def random_events(seed: int, count: int) -> list[tuple[int, int, int]]:
    rng = np.random.default_rng(seed)
    live: list[tuple[int, int, int]] = []
    out = []
    for tensor in range(count):
        size = int(rng.choice([700, 300_000, 3 * MIB, 15 * MIB, 70 * MIB]) * rng.uniform(0.5, 1.5))
        live.append((size, tensor, int(rng.integers(2))))
        out.append(live[-1])
        while live and rng.random() < 0.48:
            size, t, stream = live.pop(int(rng.integers(len(live))))
            out.append((-size, t, stream))
    return out


@pytest.mark.parametrize("expandable", [False, True])
@pytest.mark.parametrize("limit", [0, 400 * MIB])
@pytest.mark.parametrize("seed", range(4))
def test_kernel_equals_its_twin(seed: int, expandable: bool, limit: int) -> None:
    events = random_events(seed, 120)
    options = {"expandable": expandable, "limit_bytes": limit}
    assert replay(events, **options) == replay(events, **options, reference=True)


def test_a_freed_block_is_reused_only_on_its_stream() -> None:
    one = [(64 * MIB, 0, 0), (-64 * MIB, 0, 0)]
    assert replay([*one, (64 * MIB, 1, 0)]).reserved_bytes == 64 * MIB
    assert replay([*one, (64 * MIB, 1, 1)]).reserved_bytes == 128 * MIB


def test_long_lived_tensor_in_a_freed_block_costs_a_segment() -> None:
    """The block that held an activation is split by a tensor that stays: the activation needs new memory."""
    events = [(100 * MIB, 0, 0), (-100 * MIB, 0, 0), (10 * MIB, 1, 0), (100 * MIB, 2, 0)]
    assert replay(events).reserved_bytes == 200 * MIB
    assert replay(events, expandable=True).reserved_bytes == 120 * MIB


def test_a_full_device_releases_whole_free_segments() -> None:
    events = [(100 * MIB, 0, 0), (-100 * MIB, 0, 0), (150 * MIB, 1, 0)]
    full = replay(events, limit_bytes=200 * MIB)
    assert (full.reserved_bytes, full.releases) == (150 * MIB, 1)
    assert replay(events).reserved_bytes == 250 * MIB
