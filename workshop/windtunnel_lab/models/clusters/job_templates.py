"""Seconds of a step of a grid computation under three ways to run it in parallel, and their hybrid.

Message passing: ranks own blocks of the grid, swap faces with six neighbours and sum a scalar, α-β messages, a share of
their node's memory. Shared memory: threads of one node share its memory's rate and pay for the memory of the other
socket and a barrier. Offload: what the host changed is copied over its link, a kernel runs at the device's rates, the
result is copied back. Hybrid: one rank a socket, threads inside.

Source: Hockney 1994 (α-β); Williams, Waterman and Patterson 2009 (roofline); Culler et al. 1999, surface to volume.
Valid for: steps that either products or memory bound; caches that hold neither grid nor blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """One step of a computation on a cube of cells."""

    side: int
    flop_per_cell: float
    bytes_per_cell: float
    """Memory traffic of a cell."""
    face_bytes_per_cell: float = 8.0
    """Sent of each cell of a face."""

    @property
    def cells(self) -> float:
        """Of the cube."""
        return float(self.side) ** 3


@dataclass(frozen=True, slots=True, kw_only=True)
class HostNode:
    """A server."""

    cores: int
    sockets: int
    core_flop_per_s: float
    memory_bytes_per_s: float
    """Of all sockets together."""
    core_memory_bytes_per_s: float
    """What one core can draw."""
    remote_share: float = 0.5
    """Rate of the other socket's memory over that of one's own."""
    barrier_s: float = 1e-6
    """Of two threads; a barrier of n takes log2 n times as long."""
    inside_s: float = 0.5e-6
    """Latency of a message between ranks of a node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """A device next to the host."""

    flop_per_s: float
    memory_bytes_per_s: float
    link_bytes_per_s: float
    launch_s: float = 5e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """Network between nodes."""

    latency_s: float
    bytes_per_s: float
    """Of a node's port."""


def _work_s(grid: Grid, share: float, cores: int, rate: float, node: HostNode) -> float:
    """A share of the cells on some cores that draw at most `rate` bytes a second."""
    flop_s = share * grid.cells * grid.flop_per_cell / (cores * node.core_flop_per_s)
    return max(flop_s, share * grid.cells * grid.bytes_per_cell / min(rate, cores * node.core_memory_bytes_per_s))


def serial_s(grid: Grid, node: HostNode) -> float:
    """One core."""
    return _work_s(grid, 1.0, 1, node.memory_bytes_per_s, node)


def message_passing_s(grid: Grid, node: HostNode, wire: Wire, ranks: int, threads: int = 1) -> float:
    """Ranks of `threads` threads each, on as many nodes as they fill.

    Raises:
        ValueError: a rank has more threads than its node has cores.
    """
    if threads > node.cores:
        raise ValueError(f"threads = {threads}: a node has {node.cores} cores")
    per_node = min(ranks, node.cores // threads)
    nodes = ceil(ranks / per_node)
    used = min(node.memory_bytes_per_s, per_node * threads * node.core_memory_bytes_per_s)
    seconds = _work_s(grid, 1.0 / ranks, threads, used / per_node, node)
    if threads > 1:
        seconds += node.barrier_s * log2(threads)
    if ranks == 1:
        return seconds
    face: float = (grid.cells / ranks) ** (2.0 / 3.0) * grid.face_bytes_per_cell
    steps = log2(ranks)
    if nodes == 1:
        return seconds + 6.0 * (node.inside_s + face / (used / per_node)) + 2.0 * steps * node.inside_s
    surface: float = (grid.cells / nodes) ** (2.0 / 3.0) * grid.face_bytes_per_cell
    sends: float = 6.0 * per_node ** (2.0 / 3.0)  # messages that leave a node share its port one after the other
    swap = sends * wire.latency_s / min(per_node, 6) + 6.0 * surface / wire.bytes_per_s
    return seconds + swap + 2.0 * (log2(nodes) * wire.latency_s + max(steps - log2(nodes), 0.0) * node.inside_s)


def shared_memory_s(grid: Grid, node: HostNode, threads: int, *, placed: bool = True) -> float:
    """Threads of one node.

    Args:
        grid: step.
        node: server.
        threads: at most its cores.
        placed: each socket finds its part of the grid in its own memory; else all lies with the first socket.

    Raises:
        ValueError: more threads than cores.
    """
    if threads > node.cores:
        raise ValueError(f"threads = {threads}: a node has {node.cores} cores")
    per_socket, own = node.cores / node.sockets, node.memory_bytes_per_s / node.sockets
    sockets = min(ceil(threads / per_socket), node.sockets)
    rate = own * sockets if placed else own * (1.0 if sockets == 1 else 0.5 + 0.5 * node.remote_share)
    barrier = node.barrier_s * log2(threads) if threads > 1 else 0.0
    return _work_s(grid, 1.0, threads, rate, node) + barrier


def offload_s(grid: Grid, device: Accelerator, steps_between_copies: int = 1) -> float:
    """A step on the device, copies there and back shared by the steps between them."""
    kernel = max(
        grid.cells * grid.flop_per_cell / device.flop_per_s,
        grid.cells * grid.bytes_per_cell / device.memory_bytes_per_s,
    )
    copies = 2.0 * grid.cells * grid.face_bytes_per_cell / device.link_bytes_per_s
    return kernel + device.launch_s + copies / steps_between_copies
