"""What a caching block allocator would reserve for the tensors of a program."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Int32s, Ints
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


@dataclass(frozen=True, slots=True)
class Replay:
    """What a block allocator held over a program. Bytes."""

    reserved_bytes: int
    """Largest size of all its segments together."""
    reserved_end_bytes: int
    allocated_bytes: int
    """Largest sum of the blocks in use."""
    releases: int
    """How often it gave cached segments back because the device was full (each stalls the device)."""
    peak_event: int = 0
    """Row of the event at which the blocks in use were largest (the first such)."""


def replay_tensors(
    sizes: Ints,
    tensors: Ints,
    streams: Ints,
    *,
    expandable: bool = False,
    limit_bytes: int = 0,
    reference: bool = False,
) -> Replay:
    """Replay allocations and frees of single tensors, in host order, through a caching block allocator.

    Rounding, segments, best fit and joining as in `reserved_bytes`. Blocks belong to the stream they were first
    allocated on. With `expandable` every stream has one segment for small and one for large blocks that grows at its
    end by what is missing, in steps of 2 and 20 MiB; blocks are split to the last 512 bytes.

    Args:
        sizes: Bytes, positive to allocate, negative to free. Shape (n,).
        tensors: Tensor of each event, a number from 0 for every allocation. Shape (n,).
        streams: Stream of each allocation, from 0. Shape (n,).
        expandable: Expandable segments (`expandable_segments:True`).
        limit_bytes: Where a new segment would pass it, free segments are released first; 0 for no limit.
        reference: Use the plain Python twin.

    Source: PyTorch 2.x, c10/cuda/CUDACachingAllocator.cpp (block pools by stream, `should_split`,
    `try_allocate_expandable_block`, `release_cached_blocks`).
    """
    num_streams = int(streams.max(initial=0)) + 1
    if reference:
        return _replay_tensors_reference(sizes.tolist(), tensors.tolist(), streams.tolist(), expandable, limit_bytes)
    load_kernels()
    from windtunnel.engine.block_kernel import replay_tensors as run

    count = run(
        np.ascontiguousarray(sizes, np.int64),
        np.ascontiguousarray(tensors, np.int64),
        np.ascontiguousarray(streams, np.int64),
        num_streams,
        expandable,
        limit_bytes,
    )
    return Replay(int(count[4]), int(count[2]), int(count[5]), int(count[6]), int(count[8]))


def _replay_tensors_reference(
    sizes: list[int], tensors: list[int], streams: list[int], expandable: bool, limit: int
) -> Replay:
    """Segments as lists of [size, tensor that holds it or None], in order of creation."""
    segments: list[tuple[int, list[list[int | None]]]] = []
    where: dict[int, int] = {}
    reserved_peak = allocated_peak = allocated = releases = peak_event = 0

    def held(segment: int) -> int:
        return sum(int(block[0] or 0) for block in segments[segment][1])

    for event, (wanted, tensor, stream) in enumerate(zip(sizes, tensors, streams, strict=True)):
        if wanted < 0:
            pool, blocks = segments[where[tensor]]
            mine = next(block for block in blocks if block[1] == tensor)
            mine[1] = None
            allocated -= int(mine[0] or 0)
            segments[where.pop(tensor)] = (pool, _joined(blocks))
            continue
        size = max(-(-wanted // ROUND) * ROUND, ROUND)
        large = size > SMALL
        pool = 2 * stream + large
        fits = [
            (expandable and b == len(blocks) - 1, int(block[0] or 0), s, b)
            for s, (kind, blocks) in enumerate(segments)
            for b, block in enumerate(blocks)
            if kind == pool and block[1] is None and int(block[0] or 0) >= size
        ]
        if fits:
            _, _, s, b = min(fits)
        elif expandable:
            s = next((i for i, (kind, _) in enumerate(segments) if kind == pool), len(segments))
            if s == len(segments):
                segments.append((pool, []))
            blocks = segments[s][1]
            if not blocks or blocks[-1][1] is not None:
                blocks.append([0, None])
            step = LARGE_SEGMENT if large else SMALL_SEGMENT
            blocks[-1][0] = int(blocks[-1][0] or 0) + -(-(size - int(blocks[-1][0] or 0)) // step) * step
            b = len(blocks) - 1
        else:
            room = SMALL_SEGMENT
            if large:
                room = LARGE_SEGMENT if size < MIN_LARGE else -(-size // ROUND_LARGE) * ROUND_LARGE
            if limit and sum(map(held, range(len(segments)))) + room > limit:
                releases += 1
                for i, (kind, blocks) in enumerate(segments):
                    if len(blocks) == 1 and blocks[0][1] is None:
                        segments[i] = (kind, [])
            segments.append((pool, [[room, None]]))
            s, b = len(segments) - 1, 0
        blocks = segments[s][1]
        rest = int(blocks[b][0] or 0) - size
        if rest >= ROUND and (expandable or not large or rest > SMALL):
            blocks[b][0] = size
            blocks.insert(b + 1, [rest, None])
        blocks[b][1] = tensor
        where[tensor] = s
        allocated += int(blocks[b][0] or 0)
        if allocated > allocated_peak:
            allocated_peak, peak_event = allocated, event
        reserved_peak = max(reserved_peak, sum(map(held, range(len(segments)))))
    return Replay(reserved_peak, sum(map(held, range(len(segments)))), allocated_peak, releases, peak_event)


def replay_reference(sizes: Ints, kinds: Int32s, num_kinds: int) -> int:
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
