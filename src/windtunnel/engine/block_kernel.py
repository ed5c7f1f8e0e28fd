"""The jitted event loop of the caching block allocator. Import it through `allocator`: it imports Numba."""

# Numba's decorators have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return,call-overload,no-untyped-call,return-value"

from __future__ import annotations

from typing import Any

import numpy as np
from numba import boolean, int64, types

from windtunnel.jit import helper, kernel

Array = Any

ROUND, SMALL, SMALL_SEGMENT, LARGE_SEGMENT, MIN_LARGE, ROUND_LARGE = 512, 2**20, 2**21, 20 * 2**20, 10 * 2**20, 2**21
SIZE, OFFSET, BEFORE, AFTER, SEGMENT, POOL, FREE = range(7)
"""Columns of a block: bytes, address in its segment, neighbours in it, segment, pool (stream and size class), free."""
BLOCKS, SEGMENTS, RESERVED, ALLOCATED, RESERVED_PEAK, ALLOCATED_PEAK, RELEASES, SPARE, PEAK_EVENT = range(9)
"""Counters: blocks made, segments made, bytes of segments and of blocks in use, their peaks, releases, spare blocks,
the event at which the blocks in use were largest."""

_L = types.Array(int64, 1, "C")


@helper
def _place(blocks: Array, order: Array, held: int, pool: int, size: int, segment: int, offset: int) -> int:
    """Where in the pool's free blocks, sorted by (size, segment, offset), this one is or belongs."""
    low, high = int64(0), int64(held)
    while low < high:
        middle = (low + high) // 2
        b = order[pool, middle]
        if blocks[b, SIZE] < size or (
            blocks[b, SIZE] == size
            and (blocks[b, SEGMENT] < segment or (blocks[b, SEGMENT] == segment and blocks[b, OFFSET] < offset))
        ):
            low = middle + 1
        else:
            high = middle
    return low


@helper
def _unlist(blocks: Array, order: Array, held: Array, b: int) -> None:
    """Take a block off its pool's free blocks."""
    pool = blocks[b, POOL]
    at = _place(blocks, order, held[pool], pool, blocks[b, SIZE], blocks[b, SEGMENT], blocks[b, OFFSET])
    held[pool] -= 1
    for i in range(at, held[pool]):
        order[pool, i] = order[pool, i + 1]
    blocks[b, FREE] = 0


@helper
def _list_free(blocks: Array, order: Array, held: Array, b: int) -> None:
    pool = blocks[b, POOL]
    at = _place(blocks, order, held[pool], pool, blocks[b, SIZE], blocks[b, SEGMENT], blocks[b, OFFSET])
    for i in range(held[pool], at, -1):
        order[pool, i] = order[pool, i - 1]
    order[pool, at] = b
    held[pool] += 1
    blocks[b, FREE] = 1


@helper
def _new_block(spare: Array, count: Array) -> int:
    if count[SPARE] > 0:
        count[SPARE] -= 1
        return int64(spare[count[SPARE]])
    count[BLOCKS] += 1
    return int64(count[BLOCKS] - 1)


@helper
def _drop(spare: Array, count: Array, b: int) -> None:
    spare[count[SPARE]] = b
    count[SPARE] += 1


@helper
def _best_fit(blocks: Array, order: Array, held: Array, pool: int, size: int, expandable: bool) -> int:
    """Smallest free block that is large enough, of these the oldest address; the growing end counts as the largest."""
    at = _place(blocks, order, held[pool], pool, size, -1, -1)
    if at >= held[pool]:
        return int64(-1)
    b = order[pool, at]
    if expandable and blocks[b, AFTER] < 0 and at + 1 < held[pool]:
        b = order[pool, at + 1]
    return int64(b)


@helper
def _release(blocks: Array, order: Array, held: Array, spare: Array, count: Array, pools: int) -> None:
    """Give whole free segments back to the device, as the allocator does before it gives up."""
    for pool in range(pools):
        kept = int64(0)
        for i in range(held[pool]):
            b = order[pool, i]
            if blocks[b, BEFORE] < 0 and blocks[b, AFTER] < 0:
                blocks[b, FREE] = 0
                count[RESERVED] -= blocks[b, SIZE]
                _drop(spare, count, b)
            else:
                order[pool, kept] = b
                kept += 1
        held[pool] = kept
    count[RELEASES] += 1


@helper
def _grow(
    blocks: Array, order: Array, held: Array, last: Array, spare: Array, count: Array, pool: int, size: int
) -> int:
    """Map more of an expandable segment: what its free end lacks, in whole steps. The block is off the free list."""
    b = int64(last[pool])
    have = int64(0)
    if b >= 0 and blocks[b, FREE] == 1:
        _unlist(blocks, order, held, b)
        have = blocks[b, SIZE]
    else:
        c = _new_block(spare, count)
        blocks[c, OFFSET] = 0 if b < 0 else blocks[b, OFFSET] + blocks[b, SIZE]
        blocks[c, BEFORE] = b
        blocks[c, AFTER] = -1
        blocks[c, SEGMENT] = pool
        blocks[c, POOL] = pool
        if b >= 0:
            blocks[b, AFTER] = c
        b = c
        last[pool] = c
    step = SMALL_SEGMENT if pool % 2 == 0 else LARGE_SEGMENT
    more = (size - have + step - 1) // step * step
    blocks[b, SIZE] = have + more
    count[RESERVED] += more
    return b


@helper
def _take(
    blocks: Array,
    order: Array,
    held: Array,
    last: Array,
    spare: Array,
    count: Array,
    wanted: int,
    stream: int,
    expandable: bool,
    limit: int,
    pools: int,
) -> int:
    size = max((wanted + ROUND - 1) // ROUND * ROUND, ROUND)
    pool = 2 * stream + (0 if size <= SMALL else 1)
    large = pool % 2 == 1
    b = _best_fit(blocks, order, held, pool, size, expandable)
    if b >= 0:
        _unlist(blocks, order, held, b)
    elif expandable:
        b = _grow(blocks, order, held, last, spare, count, pool, size)
    else:
        room = SMALL_SEGMENT
        if large:
            room = LARGE_SEGMENT if size < MIN_LARGE else (size + ROUND_LARGE - 1) // ROUND_LARGE * ROUND_LARGE
        if limit > 0 and count[RESERVED] + room > limit:
            _release(blocks, order, held, spare, count, pools)
        b = _new_block(spare, count)
        blocks[b, SIZE] = room
        blocks[b, OFFSET] = 0
        blocks[b, BEFORE] = -1
        blocks[b, AFTER] = -1
        blocks[b, SEGMENT] = count[SEGMENTS]
        blocks[b, POOL] = pool
        count[SEGMENTS] += 1
        count[RESERVED] += room
    rest = blocks[b, SIZE] - size
    if rest >= ROUND and (expandable or not large or rest > SMALL):
        c = _new_block(spare, count)
        blocks[c, SIZE] = rest
        blocks[c, OFFSET] = blocks[b, OFFSET] + size
        blocks[c, SEGMENT] = blocks[b, SEGMENT]
        blocks[c, POOL] = pool
        blocks[c, BEFORE] = b
        blocks[c, AFTER] = blocks[b, AFTER]
        if blocks[b, AFTER] >= 0:
            blocks[blocks[b, AFTER], BEFORE] = c
        else:
            last[pool] = c
        blocks[b, AFTER] = c
        blocks[b, SIZE] = size
        _list_free(blocks, order, held, c)
    blocks[b, FREE] = 0
    count[ALLOCATED] += blocks[b, SIZE]
    count[RESERVED_PEAK] = max(count[RESERVED_PEAK], count[RESERVED])
    count[ALLOCATED_PEAK] = max(count[ALLOCATED_PEAK], count[ALLOCATED])
    return b


@helper
def _give_back(blocks: Array, order: Array, held: Array, last: Array, spare: Array, count: Array, b: int) -> None:
    """Free a block and join it with free neighbours."""
    count[ALLOCATED] -= blocks[b, SIZE]
    pool = blocks[b, POOL]
    after = int64(blocks[b, AFTER])
    if after >= 0 and blocks[after, FREE] == 1:
        _unlist(blocks, order, held, after)
        blocks[b, SIZE] += blocks[after, SIZE]
        blocks[b, AFTER] = blocks[after, AFTER]
        if blocks[b, AFTER] >= 0:
            blocks[blocks[b, AFTER], BEFORE] = b
        elif last[pool] == after:
            last[pool] = b
        _drop(spare, count, after)
    before = int64(blocks[b, BEFORE])
    if before >= 0 and blocks[before, FREE] == 1:
        _unlist(blocks, order, held, before)
        blocks[before, SIZE] += blocks[b, SIZE]
        blocks[before, AFTER] = blocks[b, AFTER]
        if blocks[b, AFTER] >= 0:
            blocks[blocks[b, AFTER], BEFORE] = before
        elif last[pool] == b:
            last[pool] = before
        _drop(spare, count, b)
        b = before
    _list_free(blocks, order, held, b)


@kernel(_L(_L, _L, _L, int64, boolean, int64))
def replay_tensors(
    sizes: Array, tensors: Array, streams: Array, num_streams: int, expandable: bool, limit: int
) -> Array:
    """Counters after all events; see `allocator.replay_tensors`."""
    n = len(sizes)
    pools = 2 * num_streams
    blocks = np.zeros((2 * n + 2, 7), np.int64)
    spare = np.zeros(2 * n + 2, np.int64)
    count = np.zeros(9, np.int64)
    order = np.empty((pools, n + 1), np.int64)
    held = np.zeros(pools, np.int64)
    last = np.full(pools, -1, np.int64)
    where = np.full(tensors.max() + 1 if n else 0, -1, np.int64)
    for i in range(n):
        t = tensors[i]
        if sizes[i] > 0:
            before = count[ALLOCATED_PEAK]
            where[t] = _take(blocks, order, held, last, spare, count, sizes[i], streams[i], expandable, limit, pools)
            if count[ALLOCATED_PEAK] > before:
                count[PEAK_EVENT] = i
        else:
            _give_back(blocks, order, held, last, spare, count, where[t])
    return count
