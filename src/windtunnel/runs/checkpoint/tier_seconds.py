"""How long saving to and loading from each tier takes: copies over the host link, flushes over ports and storage.

One node's copies and flushes are tasks of the engine: each writer copies its bytes in pieces to host memory and hands
them on, piece by piece, and all writers of the node share its host links, its ports and its part of the shared storage.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from windtunnel import engine
from windtunnel.program.builder import ProgramBuilder
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.run import CheckpointSpec, CheckpointTier
from windtunnel.training.offload.memory_tiers import (
    PAGEABLE_BYTES_PER_S,
    drive_bytes_per_s,
    host_memory_bytes_per_s,
    link_bytes_per_s,
)
from windtunnel.training.step_figures.checkpoint_bytes import CheckpointBytes

STORAGE_BYTES_PER_S_A_NODE = 1e9
"""What shared storage takes from one node where nothing is stated: 2 TB/s sustained for 2,048 nodes (Llama Team 2024,
arXiv 2407.21783, section 3.3.1). BLOOM's 57 GB/s for 48 nodes is 1.2 GB/s. Prior, within a factor of two."""
WRITER_BYTES_PER_S = 1.44e9
"""What one process serialises and hands to a file: 20 GB in 13.9 s by one writer (torchsnapshot benchmarks/ddp, p4d).
`torch.save` itself takes 32 s, 0.63 GB/s."""
SAVE_OVERHEAD_S = 0.35
"""Metadata and barriers of a save: what is left of the same table's 1.3 to 3.4 s after bytes over rates. Prior, within
a factor of two for a node; grows with the logarithm of the nodes."""
PORT_FRACTION = 0.8
"""Payload of ports that carry checkpoints: TCP or RDMA to storage. Prior, 0.6 to 0.95."""
_PIECES = 8


@dataclass(frozen=True, slots=True)
class TierSeconds:
    """Times of one tier."""

    block_s: float
    """How long a save stops the steps."""
    lag_s: float
    """From the end of the stop to a copy that can be loaded."""
    load_s: float
    slowed_s: float = 0.0
    """Seconds that steps lose while the rest of a save runs next to them."""
    assumed: tuple[tuple[str, str, str], ...] = ()
    """(field, value, why)."""

    def waiting(self, tier: CheckpointTier, period_s: float) -> TierSeconds:
        """The same where saves follow each other after `period_s` of steps: each waits for room in the host buffer.

        The buffer drains while the steps run and while they stop. In the long run a save can start only as often as
        one is written, however many copies the buffer holds.
        """
        if tier.buffer_bytes is None or tier.mode == "sync":
            return self
        wait = max(self.lag_s - period_s, 0.0)
        return replace(self, block_s=self.block_s + wait, lag_s=min(self.lag_s, period_s))


@dataclass(frozen=True, slots=True)
class Saver:
    """What writes: one step's state on its cluster."""

    cluster: ClusterSpec
    state: CheckpointBytes
    spec: CheckpointSpec
    hideable_s: float
    """Seconds of forward and backward behind which a lazy copy can run."""

    def bytes_per_writer(self, tier: CheckpointTier) -> float:
        """Of the writer that has most."""
        scale = (self.spec.bytes or self.state.total) / self.state.total if self.state.total else 1.0
        if tier.of_every_replica:
            return self.state.largest_held * scale
        largest = self.state.largest_shard if self.spec.parallel_writers else self.state.largest_of_first_replica
        return largest * scale

    @property
    def total_bytes(self) -> float:
        """Of one checkpoint."""
        return self.spec.bytes or self.state.total

    def writing_nodes(self, tier: CheckpointTier) -> int:
        """Nodes that write: all of them, or those of the first replica."""
        if tier.of_every_replica:
            return self.cluster.nodes
        per_node = self.bytes_per_writer(tier) * self.cluster.devices_per_node
        return max(min(math.ceil(self.total_bytes / per_node - 1e-9), self.cluster.nodes), 1) if per_node else 1


def tier_seconds(saver: Saver, tier: CheckpointTier) -> TierSeconds:
    """Times of a tier: those that the scenario states, the others from bytes and rates."""
    copy_s, save_s, load_s, assumed = _simulated(saver, tier)
    if tier.save_s is not None:
        save_s = tier.save_s
    if tier.mode == "sync":
        block = save_s
    elif tier.mode == "async":
        block = copy_s
    else:
        block = max(copy_s - saver.hideable_s, 0.0)
    if tier.buffer_bytes is not None and tier.mode != "sync":
        block = max(block, _overflow_s(saver, tier, save_s) - (saver.hideable_s if tier.mode == "lazy" else 0.0))
    if tier.block_s is not None:
        block = tier.block_s
    load = load_s if tier.load_s is None else tier.load_s
    lag = max(save_s - block, 0.0)
    slowed = tier.interference * lag if tier.mode != "sync" else 0.0
    return TierSeconds(block, lag, load, slowed, assumed if tier.save_s is None else ())


def _overflow_s(saver: Saver, tier: CheckpointTier, save_s: float) -> float:
    """Seconds of a copy that is larger than the host buffer: what does not fit follows at the pace of the flush."""
    size, room = saver.bytes_per_writer(tier), tier.buffer_bytes or 0.0
    return save_s * (1.0 - room / size) if size > room else 0.0


def _simulated(saver: Saver, tier: CheckpointTier) -> tuple[float, float, float, tuple[tuple[str, str, str], ...]]:
    """(copy to host memory, save until it can be loaded, load, what was assumed)."""
    cluster, spec = saver.cluster, saver.spec
    link = link_bytes_per_s(cluster)
    if not tier.pinned:
        link = min(link, PAGEABLE_BYTES_PER_S)
    link = min(link, host_memory_bytes_per_s(cluster))
    size = saver.bytes_per_writer(tier)
    copy_s = size / link
    overhead = SAVE_OVERHEAD_S * max(math.log2(cluster.nodes), 1.0)
    if tier.to == "device":
        seconds = 2.0 * size / cluster.device.memory_bytes_per_s
        return seconds, seconds, seconds, ()
    writer = spec.writer_bytes_per_s or WRITER_BYTES_PER_S
    if tier.to == "host":  # one that stops the steps is the framework's own call: the process serialises what it copies
        serialised = pipelined_s(1, size, link, math.inf, writer) if tier.mode == "sync" else copy_s
        return copy_s, serialised, copy_s, ()
    ports = cluster.scale_out.nics_per_node * cluster.scale_out.nic_bytes_per_s * PORT_FRACTION
    assumed: tuple[tuple[str, str, str], ...] = ()
    if tier.to == "drive":
        n = cluster.devices_per_node
        write, read = (drive_bytes_per_s(cluster, write=True) * n, drive_bytes_per_s(cluster, write=False) * n)
    elif tier.to in ("peer", "erasure"):
        extra = 1.0 if tier.to == "peer" else tier.parity / max(tier.group - tier.parity, 1)
        write, read, writer, overhead = ports / extra, ports, math.inf, 0.0
    else:
        nodes = saver.writing_nodes(tier)
        write = min((spec.storage_write_bytes_per_s or STORAGE_BYTES_PER_S_A_NODE * cluster.nodes) / nodes, ports)
        read_all = spec.storage_read_bytes_per_s or spec.storage_write_bytes_per_s
        read = min((read_all or STORAGE_BYTES_PER_S_A_NODE * cluster.nodes) / cluster.nodes, ports)
        if spec.storage_write_bytes_per_s is None:
            why = "not stated; 1 GB/s for each node, as Llama 3's storage has"
            assumed = (("run.checkpoint.storage_write_bytes_per_s", f"{cluster.nodes} GB/s", why),)
    flush = size if tier.to != "erasure" or tier.group > tier.parity else math.inf
    save_s = pipelined_s(cluster.devices_per_node, flush, link, write, writer) + overhead
    # every rank reads what it holds; replicas read the same bytes from storage once and pass them on over the ports
    load_bytes = saver.total_bytes / cluster.nodes / cluster.devices_per_node
    load_s = pipelined_s(cluster.devices_per_node, load_bytes, link, read, math.inf) + overhead
    load_s += max(saver.state.largest_of_first_replica - load_bytes, 0.0) * cluster.devices_per_node / ports
    return copy_s, save_s, load_s, assumed


def pipelined_s(writers: int, size: float, link: float, node_rate: float, writer: float) -> float:
    """Seconds until every writer of a node has copied its bytes to host memory and handed them on, piece by piece."""
    if size <= 0:
        return 0.0
    if math.isinf(node_rate):  # nothing is shared
        return size / _PIECES * (1.0 / link + (_PIECES - 1) / min(link, writer) + 1.0 / writer)
    b = ProgramBuilder()
    shared = b.rate("ports, drives or storage", node_rate)
    piece = size / _PIECES
    for w in range(writers):
        copies = b.add(np.full(_PIECES, piece / link), stream=b.stream(f"host link {w}"), tag="copy")
        alone = piece / min(writer, node_rate)
        flushes = b.add(np.full(_PIECES, alone), stream=b.stream(f"writer {w}"), tag="flush", rates={shared: piece})
        b.add_dependencies(flushes + np.arange(_PIECES), copies + np.arange(_PIECES))
    timeline = engine.simulate(*b.build())
    return float(timeline.end_s.max())
