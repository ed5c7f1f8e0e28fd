"""The jitted event loop of the caching block allocator. Import it through `allocator`: it imports Numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import boolean, int64, njit, types

Array = Any

ROUND, SMALL, SMALL_SEGMENT, LARGE_SEGMENT, MIN_LARGE, ROUND_LARGE = 512, 2**20, 2**21, 20 * 2**20, 10 * 2**20, 2**21
SIZE, OFFSET, BEFORE, AFTER, FREE_BEFORE, FREE_AFTER, SEGMENT, POOL, FREE = range(9)
BLOCKS, SEGMENTS, RESERVED, ALLOCATED, RESERVED_PEAK, ALLOCATED_PEAK, RELEASES, SPARE = range(8)

_L = types.Array(int64, 1, "C")
_helper = njit(cache=True, error_model="numpy", _nrt=False)


@_helper
def _unlist(blocks: Array, free_head: Array, b: int) -> None:
    before, after = blocks[b, FREE_BEFORE], blocks[b, FREE_AFTER]
    if before >= 0:
        blocks[before, FREE_AFTER] = after
    else:
        free_head[blocks[b, POOL]] = after
    if after >= 0:
        blocks[after, FREE_BEFORE] = before
    blocks[b, FREE] = 0


@_helper
def _list_free(blocks: Array, free_head: Array, b: int) -> None:
    head = free_head[blocks[b, POOL]]
    blocks[b, FREE_BEFORE] = -1
    blocks[b, FREE_AFTER] = head
    if head >= 0:
        blocks[head, FREE_BEFORE] = b
    free_head[blocks[b, POOL]] = b
    blocks[b, FREE] = 1


@_helper
def _new_block(spare: Array, count: Array) -> int:
    if count[SPARE] > 0:
        count[SPARE] -= 1
        return int64(spare[count[SPARE]])
    count[BLOCKS] += 1
    return int64(count[BLOCKS] - 1)


@_helper
def _drop(spare: Array, count: Array, b: int) -> None:
    spare[count[SPARE]] = b
    count[SPARE] += 1


@_helper
def _best_fit(blocks: Array, free_head: Array, pool: int, size: int, expandable: bool) -> int:
    """Smallest free block that is large enough, of these the oldest address; the growing end counts as the largest."""
    best = tail = int64(-1)
    b = int64(free_head[pool])
    while b >= 0:
        if blocks[b, SIZE] >= size:
            if expandable and blocks[b, AFTER] < 0:
                tail = b
            elif (
                best < 0
                or blocks[b, SIZE] < blocks[best, SIZE]
                or (
                    blocks[b, SIZE] == blocks[best, SIZE]
                    and (
                        blocks[b, SEGMENT] < blocks[best, SEGMENT]
                        or (
                            blocks[b, SEGMENT] == blocks[best, SEGMENT] and blocks[b, OFFSET] < blocks[best, OFFSET]
                        )
                    )
                )
            ):
                best = b
        b = int64(blocks[b, FREE_AFTER])
    return best if best >= 0 else tail


@_helper
def _release(blocks: Array, free_head: Array, spare: Array, count: Array, pools: int) -> None:
    """Give whole free segments back to the device, as the allocator does before it gives up."""
    for pool in range(pools):
        b = int64(free_head[pool])
        while b >= 0:
            after = int64(blocks[b, FREE_AFTER])
            if blocks[b, BEFORE] < 0 and blocks[b, AFTER] < 0:
                _unlist(blocks, free_head, b)
                count[RESERVED] -= blocks[b, SIZE]
                _drop(spare, count, b)
            b = after
    count[RELEASES] += 1


@_helper
def _grow(blocks: Array, last: Array, spare: Array, count: Array, free_head: Array, pool: int, size: int) -> int:
    """Map more of an expandable segment: what its free end lacks, in whole steps. The block is off the free list."""
    b = int64(last[pool])
    have = int64(0)
    if b >= 0 and blocks[b, FREE] == 1:
        _unlist(blocks, free_head, b)
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


@_helper
def _take(
    blocks: Array, free_head: Array, last: Array, spare: Array, count: Array, wanted: int, stream: int,
    expandable: bool, limit: int, pools: int,
) -> int:  # fmt: skip
    size = max((wanted + ROUND - 1) // ROUND * ROUND, ROUND)
    pool = 2 * stream + (0 if size <= SMALL else 1)
    large = pool % 2 == 1
    b = _best_fit(blocks, free_head, pool, size, expandable)
    if b >= 0:
        _unlist(blocks, free_head, b)
    elif expandable:
        b = _grow(blocks, last, spare, count, free_head, pool, size)
    else:
        room = SMALL_SEGMENT
        if large:
            room = LARGE_SEGMENT if size < MIN_LARGE else (size + ROUND_LARGE - 1) // ROUND_LARGE * ROUND_LARGE
        if limit > 0 and count[RESERVED] + room > limit:
            _release(blocks, free_head, spare, count, pools)
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
        _list_free(blocks, free_head, c)
    blocks[b, FREE] = 0
    count[ALLOCATED] += blocks[b, SIZE]
    count[RESERVED_PEAK] = max(count[RESERVED_PEAK], count[RESERVED])
    count[ALLOCATED_PEAK] = max(count[ALLOCATED_PEAK], count[ALLOCATED])
    return b


@_helper
def _give_back(blocks: Array, free_head: Array, last: Array, spare: Array, count: Array, b: int) -> None:
    """Free a block and join it with free neighbours."""
    count[ALLOCATED] -= blocks[b, SIZE]
    pool = blocks[b, POOL]
    after = int64(blocks[b, AFTER])
    if after >= 0 and blocks[after, FREE] == 1:
        _unlist(blocks, free_head, after)
        blocks[b, SIZE] += blocks[after, SIZE]
        blocks[b, AFTER] = blocks[after, AFTER]
        if blocks[b, AFTER] >= 0:
            blocks[blocks[b, AFTER], BEFORE] = b
        elif last[pool] == after:
            last[pool] = b
        _drop(spare, count, after)
    before = int64(blocks[b, BEFORE])
    if before >= 0 and blocks[before, FREE] == 1:
        _unlist(blocks, free_head, before)
        blocks[before, SIZE] += blocks[b, SIZE]
        blocks[before, AFTER] = blocks[b, AFTER]
        if blocks[b, AFTER] >= 0:
            blocks[blocks[b, AFTER], BEFORE] = before
        elif last[pool] == b:
            last[pool] = before
        _drop(spare, count, b)
        b = before
    _list_free(blocks, free_head, b)


@njit(_L(_L, _L, _L, int64, boolean, int64), cache=True, error_model="numpy")
def replay_tensors(
    sizes: Array, tensors: Array, streams: Array, num_streams: int, expandable: bool, limit: int
) -> Array:
    """Counters after all events; see `allocator.replay_tensors`."""
    n = len(sizes)
    pools = 2 * num_streams
    blocks = np.zeros((2 * n + 2, 9), np.int64)
    spare = np.zeros(2 * n + 2, np.int64)
    count = np.zeros(8, np.int64)
    free_head = np.full(pools, -1, np.int64)
    last = np.full(pools, -1, np.int64)
    held = np.full(tensors.max() + 1 if n else 0, -1, np.int64)
    for i in range(n):
        t = tensors[i]
        if sizes[i] > 0:
            held[t] = _take(
                blocks, free_head, last, spare, count, sizes[i], streams[i], expandable, limit, pools
            )
        else:
            _give_back(blocks, free_head, last, spare, count, held[t])
            held[t] = -1
    return count
