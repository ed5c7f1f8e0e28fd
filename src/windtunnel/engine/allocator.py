"""What a caching block allocator would reserve for the tensors of a program."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from windtunnel.engine.memory import by_pool, event_order
from windtunnel.engine.timeline import load_kernels
from windtunnel.program.tables import MemoryEvents, Timeline

ROUND, SMALL, SMALL_SEGMENT, LARGE_SEGMENT, MIN_LARGE, ROUND_LARGE = 512, 2**20, 2**21, 20 * 2**20, 10 * 2**20, 2**21


def reserved_bytes(events: MemoryEvents, timeline: Timeline, *, reference: bool = False) -> dict[int, int]:
    """Replay allocations and frees through a caching block allocator; segments are never returned.

    Blocks are rounded to 512 bytes. Up to 1 MiB they come from 2 MiB segments, larger ones from 20 MiB segments or,
    from 10 MiB on, from segments of their own size rounded to 2 MiB. Best fit, splitting, joining of free
    neighbours, no defragmentation.

    Args:
        events: Allocations and frees of all pools.
        timeline: When the tasks that trigger them start and end.
        reference: Use the plain Python twin.

    Returns:
        Bytes of segments held at the end (they only grow), by pool. Context, communication buffers and workspaces that
        do not come from this allocator are not included.

    Source: constants of the caching allocator of PyTorch 2.x (c10/cuda, block and buffer sizes).
    """
    _, order = event_order(events, timeline)
    run = replay_reference if reference else load_kernels().replay
    reserved: dict[int, int] = {}
    for pool, rows in by_pool(events, order).items():
        sizes = np.rint(events.bytes[rows]).astype(np.int64)
        rows, sizes = rows[sizes != 0], sizes[sizes != 0]
        kinds = np.ascontiguousarray(events.tensor[rows], dtype=np.int32)
        reserved[pool] = int(run(sizes, kinds, int(kinds.max(initial=0)) + 1))
    return reserved


def replay_reference(sizes: npt.NDArray[np.int64], kinds: npt.NDArray[np.int32], num_kinds: int) -> int:
    """Twin of `kernels.replay`, with segments as lists of [size, kind that holds it or None]."""
    segments: list[tuple[bool, list[list[int | None]]]] = []
    live: list[list[tuple[int, int, list[int | None]]]] = [[] for _ in range(num_kinds)]
    credit = [0] * num_kinds
    for size, kind in zip(sizes.tolist(), kinds.tolist(), strict=True):
        if size > 0:
            live[kind].append((size, *_place(segments, size, kind)))
            continue
        exact = next((held for held in live[kind] if held[0] == -size), None)
        if exact is not None:
            gone = [exact]
            rest = [held for held in live[kind] if held is not exact]
        else:
            credit[kind] -= size
            gone, rest = [], live[kind]
        while rest and rest[0][0] <= credit[kind]:
            credit[kind] -= rest[0][0]
            gone.append(rest[0])
            rest = rest[1:]
        live[kind] = rest
        for _, segment, block in gone:
            block[1] = None
            segments[segment] = (segments[segment][0], _joined(segments[segment][1]))
    return sum(int(block[0] or 0) for _, blocks in segments for block in blocks)


def _place(segments: list[tuple[bool, list[list[int | None]]]], size: int, kind: int) -> tuple[int, list[int | None]]:
    """Segment and block for a request."""
    size = max(-(-size // ROUND) * ROUND, ROUND)
    small = size <= SMALL
    fits = [
        (block[0], s, b)
        for s, (is_small, blocks) in enumerate(segments)
        for b, block in enumerate(blocks)
        if is_small == small and block[1] is None and block[0] is not None and block[0] >= size
    ]
    if fits:
        _, s, b = min(fits)
    else:
        large = LARGE_SEGMENT if size < MIN_LARGE else -(-size // ROUND_LARGE) * ROUND_LARGE
        segments.append((small, [[SMALL_SEGMENT if small else large, None]]))
        s, b = len(segments) - 1, 0
    block = segments[s][1][b]
    rest = int(block[0] or 0) - size
    if rest >= ROUND if small else rest > SMALL:
        block[0] = size
        segments[s][1].insert(b + 1, [rest, None])
    block[1] = kind
    return s, block


def _joined(blocks: list[list[int | None]]) -> list[list[int | None]]:
    joined: list[list[int | None]] = []
    for block in blocks:
        if joined and joined[-1][1] is None and block[1] is None:
            joined[-1][0] = int(joined[-1][0] or 0) + int(block[0] or 0)
        else:
            joined.append(block)
    return joined
