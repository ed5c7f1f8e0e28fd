"""What PyTorch's caching allocator would reserve for the tensors of one device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Ints

ROUND_BYTES, SMALL_BYTES, SMALL_SEGMENT_BYTES = 512, 2**20, 2**21
"""Rounding of block sizes; largest small block; segment from which small blocks are cut."""
LARGE_SEGMENT_BYTES, OWN_SEGMENT_BYTES, OWN_SEGMENT_ROUND_BYTES = 20 * 2**20, 10 * 2**20, 2**21
"""Segment from which larger blocks are cut; smallest block with a segment of its own; rounding of such segments."""


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
        reference: Use the plain Python twin.

    Returns:
        Peaks of reserved and allocated bytes, and the number of releases.

    Source: PyTorch 2.x, c10/cuda/CUDACachingAllocator.cpp (constants of block and segment sizes, block pools by stream,
    `should_split`, `try_allocate_expandable_block`, `release_cached_blocks`).
    """
    if reference:
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
    return Replay(int(count[4]), int(count[2]), int(count[5]), int(count[6]), int(count[8]))


@dataclass(slots=True)
class _Block:
    """A piece of a segment; `tensor` is the tensor that occupies it, None where it is free."""

    size: int
    tensor: int | None = None


class _ReferenceAllocator:
    """The allocator of `replay_tensors` with segments as plain lists of blocks, in order of creation."""

    def __init__(self, expandable: bool, limit_bytes: int) -> None:
        self.expandable, self.limit_bytes = expandable, limit_bytes
        self.segments: list[tuple[int, list[_Block]]] = []
        """(pool, blocks in order of address) of each segment; a pool is a stream and a size class."""
        self.segment_of: dict[int, int] = {}
        self.allocated_bytes = self.peak_allocated_bytes = self.peak_reserved_bytes = self.releases = 0
        self.peak_event = 0

    def reserved_bytes(self) -> int:
        """Total size of all segments."""
        return sum(block.size for _, blocks in self.segments for block in blocks)

    def replay(self) -> Replay:
        """Peaks so far."""
        return Replay(
            self.peak_reserved_bytes,
            self.reserved_bytes(),
            self.peak_allocated_bytes,
            self.releases,
            self.peak_event,
        )

    def free(self, tensor: int) -> None:
        """Free the block of a tensor and join it with free neighbours."""
        segment = self.segment_of.pop(tensor)
        pool, blocks = self.segments[segment]
        block = next(block for block in blocks if block.tensor == tensor)
        block.tensor = None
        self.allocated_bytes -= block.size
        self.segments[segment] = (pool, _joined(blocks))

    def allocate(self, event: int, wanted_bytes: int, tensor: int, stream: int) -> None:
        """Give a tensor a block, from the best fit or from a new segment."""
        size = max(-(-wanted_bytes // ROUND_BYTES) * ROUND_BYTES, ROUND_BYTES)
        large = size > SMALL_BYTES
        pool = 2 * stream + large
        segment, position = (
            self._best_fit(pool, size)
            or (self._grown(pool, size, large) if self.expandable else None)
            or self._new_segment(pool, size, large)
        )
        blocks = self.segments[segment][1]
        rest = blocks[position].size - size
        if rest >= ROUND_BYTES and (self.expandable or not large or rest > SMALL_BYTES):
            blocks[position].size = size
            blocks.insert(position + 1, _Block(rest))
        blocks[position].tensor = tensor
        self.segment_of[tensor] = segment
        self.allocated_bytes += blocks[position].size
        if self.allocated_bytes > self.peak_allocated_bytes:
            self.peak_allocated_bytes, self.peak_event = self.allocated_bytes, event
        self.peak_reserved_bytes = max(self.peak_reserved_bytes, self.reserved_bytes())

    def _best_fit(self, pool: int, size: int) -> tuple[int, int] | None:
        """Segment and position of the smallest free block that is large enough; expandable ends come last."""
        fits = [
            (self.expandable and position == len(blocks) - 1, block.size, segment, position)
            for segment, (kind, blocks) in enumerate(self.segments)
            for position, block in enumerate(blocks)
            if kind == pool and block.tensor is None and block.size >= size
        ]
        return min(fits)[2:] if fits else None

    def _grown(self, pool: int, size: int, large: bool) -> tuple[int, int]:
        """The last block of the pool's expandable segment, after it has grown to hold `size`."""
        kinds = [kind for kind, _ in self.segments]
        segment = kinds.index(pool) if pool in kinds else len(kinds)
        if segment == len(kinds):
            self.segments.append((pool, []))
        blocks = self.segments[segment][1]
        if not blocks or blocks[-1].tensor is not None:
            blocks.append(_Block(0))
        step = LARGE_SEGMENT_BYTES if large else SMALL_SEGMENT_BYTES
        blocks[-1].size += -(-(size - blocks[-1].size) // step) * step
        return segment, len(blocks) - 1

    def _new_segment(self, pool: int, size: int, large: bool) -> tuple[int, int]:
        """A new segment for a block of `size`; free segments are released first where the limit asks for it."""
        room = SMALL_SEGMENT_BYTES
        if large and size < OWN_SEGMENT_BYTES:
            room = LARGE_SEGMENT_BYTES
        elif large:
            room = -(-size // OWN_SEGMENT_ROUND_BYTES) * OWN_SEGMENT_ROUND_BYTES
        if self.limit_bytes and self.reserved_bytes() + room > self.limit_bytes:
            self.releases += 1
            for i, (kind, blocks) in enumerate(self.segments):
                if len(blocks) == 1 and blocks[0].tensor is None:
                    self.segments[i] = (kind, [])
        self.segments.append((pool, [_Block(room)]))
        return len(self.segments) - 1, 0


def _joined(blocks: list[_Block]) -> list[_Block]:
    """The blocks of a segment with free neighbours joined."""
    joined: list[_Block] = []
    for block in blocks:
        if joined and joined[-1].tensor is None and block.tensor is None:
            joined[-1].size += block.size
        else:
            joined.append(block)
    return joined
