"""What PyTorch's caching allocator would reserve for the tensors of one device."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Ints
from windtunnel.kernel_cache import mark_compiled, runs_on_twin

ROUND_BYTES, SMALL_BYTES, SMALL_SEGMENT_BYTES = 512, 2**20, 2**21
"""Rounding of block sizes; largest small block; segment from which small blocks are cut."""
LARGE_SEGMENT_BYTES, OWN_SEGMENT_BYTES, OWN_SEGMENT_ROUND_BYTES = 20 * 2**20, 10 * 2**20, 2**21
"""Segment from which larger blocks are cut; smallest block with a segment of its own; rounding of such segments."""
KERNEL = "engine/allocator"
"""Name of the allocator among compiled kernels."""
TWIN_S_AN_EVENT = 2e-6
"""Seconds of the plain twin for an allocation or a free, on a laptop core (40,493 events in 0.07 s)."""


@dataclass(frozen=True, slots=True)
class Replay:
    """What a caching allocator reserved over a sequence of allocations and frees."""

    reserved_bytes: int
    """Largest total size of its segments."""
    reserved_end_bytes: int
    """Total size of its segments after the last event."""
    allocated_bytes: int
    """Largest total size of the blocks in use."""
    releases: int
    """How often it returned cached segments because the device was full (each time stalls the device)."""
    peak_event: int = 0
    """Index of the first event at which the blocks in use were largest."""


def replay_tensors(
    sizes: Ints,
    tensors: Ints,
    streams: Ints,
    *,
    expandable: bool = False,
    limit_bytes: int = 0,
    reference: bool = False,
) -> Replay:
    """Replay allocations and frees of single tensors, in host order, through a caching allocator.

    Blocks are rounded up to 512 bytes. Blocks up to 1 MiB come from segments of 2 MiB; larger ones from segments of
    20 MiB or, from 10 MiB on, from segments of their own size rounded up to 2 MiB. A request takes the best fit; the
    rest of the block is split off; free neighbours are joined. A block belongs to the stream it was first allocated on.
    With `expandable`, every stream has one segment for small and one for large blocks, which grows at its end by what
    is missing in steps of 2 and 20 MiB, and blocks are split to the last 512 bytes. Contexts, communication buffers and
    workspaces that do not come from this allocator are not included.

    Args:
        sizes: Bytes, positive to allocate, negative to free, shape (events,).
        tensors: Number of the tensor, from 0, different for every allocation, shape (events,).
        streams: Stream of each allocation, from 0, shape (events,).
        expandable: Whether segments are expandable (`expandable_segments:True`).
        limit_bytes: Where a new segment would exceed this size, free segments are released first; 0 means no limit.
        reference: Use the plain Python twin, which also runs where the kernel has not been compiled yet.

    Returns:
        Peaks of reserved and allocated bytes, and the number of releases.

    Source: PyTorch 2.x, c10/cuda/CUDACachingAllocator.cpp (constants of block and segment sizes, block pools by stream,
    `should_split`, `try_allocate_expandable_block`, `release_cached_blocks`).
    """
    if reference or runs_on_twin(KERNEL, TWIN_S_AN_EVENT * len(sizes)):
        allocator = _ReferenceAllocator(expandable, limit_bytes)
        for event, (size, tensor, stream) in enumerate(
            zip(sizes.tolist(), tensors.tolist(), streams.tolist(), strict=True)
        ):
            if size < 0:
                allocator.free(tensor)
            else:
                allocator.allocate(event, size, tensor, stream)
        return allocator.replay()
    from windtunnel.engine.block_kernel import replay_tensors as run

    count = run(
        np.ascontiguousarray(sizes, np.int64),
        np.ascontiguousarray(tensors, np.int64),
        np.ascontiguousarray(streams, np.int64),
        int(streams.max(initial=0)) + 1,
        expandable,
        limit_bytes,
    )
    mark_compiled(KERNEL)
    return Replay(int(count[4]), int(count[2]), int(count[5]), int(count[6]), int(count[8]))


class _Block:
    """A piece of a segment, between its neighbours by address; `tensor` occupies it, None where it is free."""

    __slots__ = ("address", "after", "before", "pool", "segment", "size", "tensor")

    def __init__(self, pool: int, segment: int, address: int, size: int) -> None:
        self.pool, self.segment, self.address, self.size = pool, segment, address, size
        self.tensor: int | None = None
        self.before: _Block | None = None
        self.after: _Block | None = None


class _ReferenceAllocator:
    """The allocator of `replay_tensors` in plain Python: blocks as linked lists, free ones sorted by size."""

    def __init__(self, expandable: bool, limit_bytes: int) -> None:
        self.expandable, self.limit_bytes = expandable, limit_bytes
        self.heads: list[_Block | None] = []
        """First block of each segment, None once it was released; a pool is a stream and a size class."""
        self.ends: dict[int, _Block] = {}
        """Pool → last block of its expandable segment."""
        self.free_blocks: defaultdict[int, list[tuple[int, int, int, _Block]]] = defaultdict(list)
        """Pool → (size, segment, address, block) of its free blocks in order, without ends of expandable segments."""
        self.block_of: dict[int, _Block] = {}
        self.allocated_bytes = self.peak_allocated_bytes = self.releases = 0
        self.reserved_bytes = self.peak_reserved_bytes = 0
        self.peak_event = 0

    def replay(self) -> Replay:
        """Peaks so far."""
        return Replay(
            self.peak_reserved_bytes,
            self.reserved_bytes,
            self.peak_allocated_bytes,
            self.releases,
            self.peak_event,
        )

    def free(self, tensor: int) -> None:
        """Free the block of a tensor and join it with free neighbours."""
        block = self.block_of.pop(tensor)
        block.tensor = None
        self.allocated_bytes -= block.size
        before, after = block.before, block.after
        if after is not None and after.tensor is None:
            self._unlist(after)
            self._absorb(block, after)
        if before is not None and before.tensor is None:
            self._unlist(before)
            self._absorb(before, block)
            block = before
        self._list(block)

    def allocate(self, event: int, wanted_bytes: int, tensor: int, stream: int) -> None:
        """Give a tensor a block, from the best fit or from a new segment."""
        size = max(-(-wanted_bytes // ROUND_BYTES) * ROUND_BYTES, ROUND_BYTES)
        large = size > SMALL_BYTES
        pool = 2 * stream + large
        block = self._best_fit(pool, size)
        if block is None:
            block = self._grown(pool, size, large) if self.expandable else self._new_segment(pool, size, large)
        rest = block.size - size
        if rest >= ROUND_BYTES and (self.expandable or not large or rest > SMALL_BYTES):
            self._list(self._split(block, size))
        block.tensor = tensor
        self.block_of[tensor] = block
        self.allocated_bytes += block.size
        if self.allocated_bytes > self.peak_allocated_bytes:
            self.peak_allocated_bytes, self.peak_event = self.allocated_bytes, event
        self.peak_reserved_bytes = max(self.peak_reserved_bytes, self.reserved_bytes)

    def _is_end(self, block: _Block) -> bool:
        return self.expandable and block.after is None

    def _list(self, block: _Block) -> None:
        """Note a free block; the end of an expandable segment is found by its pool instead."""
        if not self._is_end(block):
            insort(self.free_blocks[block.pool], (block.size, block.segment, block.address, block))

    def _unlist(self, block: _Block) -> None:
        if not self._is_end(block):
            found = self.free_blocks[block.pool]
            del found[bisect_left(found, (block.size, block.segment, block.address))]

    def _absorb(self, block: _Block, after: _Block) -> None:
        """Join a block with the one behind it."""
        block.size += after.size
        block.after = after.after
        if after.after is not None:
            after.after.before = block
        elif self.expandable:
            self.ends[block.pool] = block

    def _split(self, block: _Block, size: int) -> _Block:
        """Cut a block to `size` and return the rest of it."""
        rest = _Block(block.pool, block.segment, block.address + size, block.size - size)
        rest.before, rest.after = block, block.after
        if block.after is not None:
            block.after.before = rest
        elif self.expandable:
            self.ends[block.pool] = rest
        block.size, block.after = size, rest
        return rest

    def _best_fit(self, pool: int, size: int) -> _Block | None:
        """The smallest free block that is large enough, no longer listed; expandable ends come last."""
        found = self.free_blocks[pool]
        at = bisect_left(found, (size,))
        if at < len(found):
            return found.pop(at)[3]
        end = self.ends.get(pool)
        return end if end is not None and end.tensor is None and end.size >= size else None

    def _grown(self, pool: int, size: int, large: bool) -> _Block:
        """The last block of the pool's expandable segment, after it has grown to hold `size`."""
        end = self.ends.get(pool)
        if end is None or end.tensor is not None:
            block = _Block(pool, len(self.heads), 0, 0) if end is None else _Block(pool, end.segment, 0, 0)
            if end is None:
                self.heads.append(block)
            else:
                block.address, block.before, end.after = end.address + end.size, end, block
            self.ends[pool] = end = block
        step = LARGE_SEGMENT_BYTES if large else SMALL_SEGMENT_BYTES
        grown = -(-(size - end.size) // step) * step
        end.size += grown
        self.reserved_bytes += grown
        return end

    def _new_segment(self, pool: int, size: int, large: bool) -> _Block:
        """A new segment for a block of `size`; free segments are released first where the limit asks for it."""
        room = SMALL_SEGMENT_BYTES
        if large and size < OWN_SEGMENT_BYTES:
            room = LARGE_SEGMENT_BYTES
        elif large:
            room = -(-size // OWN_SEGMENT_ROUND_BYTES) * OWN_SEGMENT_ROUND_BYTES
        if self.limit_bytes and self.reserved_bytes + room > self.limit_bytes:
            self.releases += 1
            for i, head in enumerate(self.heads):
                if head is not None and head.after is None and head.tensor is None:
                    self._unlist(head)
                    self.reserved_bytes -= head.size
                    self.heads[i] = None
        block = _Block(pool, len(self.heads), 0, room)
        self.heads.append(block)
        self.reserved_bytes += room
        return block
