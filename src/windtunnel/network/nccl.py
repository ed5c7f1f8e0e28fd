"""NCCL's own clock: the table from which it picks algorithm and protocol.

It is not our estimate of time (see `clock`), it is what the library believes, so that the model takes the algorithm
that a real job would take. Rates are found as NCCL's graph search finds them: channels of a standard speed until the
links are full; for NVLS a head GPU carries two flows and the others one, so a port holds n + 1 of them.

Source: NCCL 2.18 to 2.27 (PAT from 2.23), src/graph/tuning.cc, search.cc, topo.h; constants are facts. 2.28 and later
scale NVLS by 0.85 and 0.74 instead of 5/6, which would move B200's switch from 6 to 7 GPUs, against what was measured.

Valid for: all_reduce, all_gather, reduce_scatter, broadcast on NVLink or PCIe nodes, with or without a network.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from windtunnel.arrays import Floats, Ints, Mask
from windtunnel.network.coefficients import PROTOCOLS, SCALE_OUT, NetworkCoefficients, family
from windtunnel.network.groups import GroupPlacement
from windtunnel.specs.cluster import ClusterSpec

_US, _GB = 1e-6, 1e9

# Candidate speeds of one channel in GB/s, highest first.
_INTRA = {
    "older": (40.0, 30.0, 20.0, 18.0, 15.0, 12.0, 10.0, 9.0, 7.0, 6.0, 5.0, 4.0, 3.0),
    "hopper": (60.0, 50.0, 40.0, 30.0, 24.0, 20.0, 15.0, 12.0, 11.0, 6.0, 3.0),
    "blackwell": (90.0, 80.0, 70.0, 60.0, 50.0, 45.0, 40.0, 30.0, 24.0, 20.0, 19.0, 18.0),
}
_SLOW = (12.0, 10.0, 9.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.4, 1.2, 0.24, 0.12)
_INTER = {
    "older": (48.0, 30.0, 28.0, 24.0, 20.0, 18.0, 15.0, *_SLOW),
    "hopper": (48.0, 45.0, 42.0, 40.0, 30.0, 24.0, 22.0, 20.0, 17.5, 15.0, 12.0, 6.0, 3.0, 2.4, 1.2, 0.24, 0.12),
    "blackwell": (
        96.0,
        48.0,
        45.1,
        42.0,
        40.0,
        30.0,
        24.0,
        22.0,
        20.0,
        17.5,
        15.0,
        12.0,
        6.0,
        3.0,
        2.4,
        1.2,
        0.24,
        0.12,
    ),
}
# Largest rate of LL in GB/s at 1, 2, 4 and more nodes; several nodes go by the processor.
_LL_MAX = {
    "volta": (39.0, 39.0, 20.4),
    "ampere": (87.7, 39.0, 20.4),
    "hopper": (141.0, 39.0, 20.4),
    "blackwell": (282.0, 39.0, 20.4),
}
_LL_MAX_AMD = (22.5, 19.0)
_RING_LL128 = {"volta": 20.0, "ampere": 20.0, "hopper": 36.7, "blackwell": 40.0}
_TREE_LL128 = {
    "volta": (20.0, 20.0, 20.0),
    "ampere": (20.0, 20.0, 20.0),
    "hopper": (36.7, 36.7, 29.0),
    "blackwell": (55.6, 31.67, 20.0),
}
_TREE_SIMPLE = {
    "volta": (26.5, 18.5, 10.0),
    "ampere": (24.0, 23.6, 17.8),
    "hopper": (38.7, 41.4, 36.0),
    "blackwell": (70.0, 42.8, 24.0),
}
# Tree all-reduce bends at medium sizes; index ⌊log2(bytes/64)⌋.
_TREE_CORRECTION = np.array(
    [
        [1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1, 1, 1, 1],
        [1, 1, 1, 1, 1, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1, 1, 1],
        [0.9] * 7 + [0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9, 1],
    ]
)
TREE_BASE_S = (6.8 * _US, 14.0 * _US, 8.4 * _US)
TREE_UP_HOP_S = (0.6 * _US, 1.25 * _US, 4.0 * _US)
TREE_UP_HOP_PCIE_S = (1.0 * _US, 1.9 * _US, 4.0 * _US)
THROUGH_HOST = frozenset({"pcie_vm", "pcie_host"})
"""Families of links without peer access: every hop goes through host memory."""
TREE_OUT_HOP_S = (5.0 * _US, 8.5 * _US, 14.0 * _US)
NVLS_HOP_S, NVLS_OUT_HOP_S, NVLS_TREE_OUT_HOP_S = 25.0 * _US, 18.0 * _US, 20.9 * _US
COLLNET_HOP_S = {"collnet_direct": (3.7 * _US, 31.0 * _US), "collnet_chain": (2.8 * _US, 30.0 * _US)}
PAT_BASE_S, PAT_HOP_S, PAT_RANK_S, PAT_RATE = 8.0 * _US, 14.0 / 3.5 * _US, 2.8 * _US, 0.75
RING_HOP_S = {
    "nvlink": (0.6 * _US, 1.9 * _US, 3.4 * _US),
    "pcie": (1.0 * _US, 2.5 * _US, 5.7 * _US),
    "net": (2.7 * _US, 4.0 * _US, 14.0 * _US),
}
"""Ring steps that the tuner believes in, whatever the network at hand really takes."""
NET_OVERHEAD_S, NET_OVERHEAD_AMD_S = 1.0 * _US, 2.0 * _US
"""Posting one network message on other processors and on AMD's, threefold under Simple."""


@dataclass(frozen=True, slots=True)
class Graph:
    """Channels and their speed in GB/s, as the graph search settles."""

    channels: int
    speed: float

    @property
    def bus(self) -> float:
        """All channels together."""
        return self.channels * self.speed


def generation_of(cluster: ClusterSpec) -> str:
    """Row of the tables for a device; others are tuned as Ampere is."""
    name = cluster.device.generation
    return name if name in ("volta", "ampere", "hopper", "blackwell") else "ampere"


def ll_max_bytes_per_s(cluster: ClusterSpec, place: GroupPlacement) -> Floats:
    """Most that a rank moves under LL (flag polling binds, not the link), by number of nodes."""
    amd = family(SCALE_OUT, cluster.scale_out.family).amd_hosts
    return _ll_max(generation_of(cluster), place.num_domains, amd=amd) * _GB


def _ll_max(generation: str, domains: Floats, *, amd: bool) -> Floats:
    """GB/s."""
    alone, two, more = _LL_MAX[generation]
    if amd:
        two, more = _LL_MAX_AMD
    nodes = np.clip(domains - 1.0, 0.0, 2.0).astype(np.int64)
    return np.asarray(np.array([alone, two, more])[nodes])


def _array(generation: str, table: dict[str, tuple[float, ...]]) -> tuple[float, ...]:
    return table.get(generation, table["older"])


@lru_cache(maxsize=4096)
def ring_graph(generation: str, up_gbs: float, nic_gbs: float, nics: int) -> Graph:
    """Channels of the ring (and tree) graph: `up_gbs` per device inside, `nics` ports of `nic_gbs` (0 for one node)."""
    speeds = _array(generation, _INTER if nics else _INTRA)
    best, first = Graph(1, speeds[-1]), 0.0
    for speed in speeds:
        count = int(up_gbs / speed + 1e-9)
        if nics:
            count = min(count, nics * int(nic_gbs / speed + 1e-9))
        if count < 1:
            continue
        if not first:
            first = speed
            best = Graph(count, speed)
        if speed < 0.49 * first:
            break
        if count * speed > best.bus + 1e-9:
            best = Graph(count, speed)
    newer = generation in ("hopper", "blackwell")
    if best.speed < 25.0 or (newer and best.speed < 50.0 and best.channels > 4):
        return best
    return Graph(2 * best.channels, best.speed / 2)


@lru_cache(maxsize=4096)
def nvls_graph(generation: str, up_gbs: float, ranks: int) -> Graph:
    """One channel per GPU, as fast as a port holds ranks + 1 of them (one node, at most 32 heads)."""
    heads = min(ranks, 32)
    for speed in _array(generation, _INTRA):
        if (heads + 1) * speed <= up_gbs + 1e-9:
            return Graph(heads, speed)
    return Graph(heads, up_gbs / (heads + 1))


@dataclass(frozen=True, slots=True)
class Entry:
    """Time that NCCL expects of one algorithm and protocol; infinite where it is not allowed."""

    algorithm: str
    protocol: str
    time_s: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """One operation as NCCL's tuner sees it. All arrays have one shape; sizes in bytes, speeds in GB/s."""

    op: str
    size: Floats
    """Bytes of the whole tensor."""
    ranks: Floats
    ranks_per_node: Floats
    nodes: Floats
    ring_channels: Floats
    ring_speed: Floats
    """Speed of one ring channel."""
    nvls_channels: Floats
    nvls_speed: Floats
    ll_max: Floats
    """Most that LL moves."""
    generation: str
    nvlink: bool
    pcie: bool
    coefficients: NetworkCoefficients

    @property
    def bus(self) -> Floats:
        """Speed of all ring channels together."""
        return self.ring_channels * self.ring_speed

    @property
    def passes(self) -> float:
        """How often the data goes round a ring."""
        return 2.0 if self.op == "all_reduce" else 1.0

    @property
    def ring_steps(self) -> Floats:
        """Dependent messages of a ring."""
        return self.passes * (self.ranks - 1.0) if self.op != "broadcast" else self.ranks

    @property
    def ring_ratio(self) -> Floats:
        """Bytes of the tensor over bytes that a ring channel carries."""
        return np.asarray(self.ranks / np.maximum(self.ring_steps, 1.0))

    @property
    def row(self) -> Ints:
        """Index of the tuner's tables by number of nodes: 1, 2, more."""
        return np.clip(self.nodes - 1.0, 0.0, 2.0).astype(np.int64)

    @property
    def one_rank_a_node(self) -> Mask:
        """Whether each node has a single rank and there are several nodes."""
        return np.asarray((self.ranks_per_node <= 1) & (self.nodes > 1))

    def allows(self, protocol: str) -> Mask | bool:
        """Whether NCCL considers a protocol."""
        if protocol == "ll128" and not self.nvlink:
            return np.zeros(self.ranks.shape, dtype=bool)
        if protocol not in self.coefficients.out.protocols:
            return np.asarray(self.nodes <= 1)
        return np.ones(self.ranks.shape, dtype=bool)

    def flush_s(self, protocol: str) -> float:
        """Extra latency of the network for one message."""
        return self.coefficients.out.net_latency_s * (2.0 if protocol == "simple" else 1.0)

    def doublings(self) -> Floats:
        """Depth of a binary tree over the nodes."""
        return np.asarray(np.floor(np.log2(np.maximum(self.nodes, 1.0))))


def table(
    op: str, nbytes: Floats, place: GroupPlacement, cluster: ClusterSpec, coefficients: NetworkCoefficients
) -> list[Entry]:
    """NCCL's expected seconds of every (algorithm, protocol) that it would consider.

    Args:
        op: all_reduce, all_gather, reduce_scatter or broadcast.
        nbytes: Bytes of the whole tensor; broadcasts with the fields of `place`.
        place: Where the group sits.
        cluster: Links, ports and devices.
        coefficients: Efficiencies and latencies of the cluster's networks.

    Returns:
        One entry an algorithm and protocol, with seconds of the broadcast shape; infinite where it is not allowed.
    """
    job = _job(op, nbytes, place, cluster, coefficients)
    out: list[Entry] = []
    for protocol in PROTOCOLS:
        out.append(Entry("ring", protocol, _ring_s(job, protocol)))
        if op == "all_reduce":
            out.append(Entry("tree", protocol, _tree_s(job, protocol)))
    if op in ("all_gather", "reduce_scatter"):
        out.append(Entry("pat", "simple", _pat_s(job)))
    newer = job.generation in ("hopper", "blackwell")
    if op == "all_reduce" and cluster.scale_up.in_network_reduction and newer:
        out.append(Entry("nvls", "simple", _nvls_s(job)))
        out.append(Entry("nvls_tree", "simple", _nvls_tree_s(job)))
    return out


def _job(
    op: str, nbytes: Floats, place: GroupPlacement, cluster: ClusterSpec, coefficients: NetworkCoefficients
) -> _Job:
    """What the tuner reads, with the channels that the graph search settles on for every group."""
    generation = generation_of(cluster)
    ranks, per_node, nodes, size = np.broadcast_arrays(place.size, place.ranks_per_domain, place.num_domains, nbytes)
    codes = np.asarray(per_node).astype(np.int64) * 2 + (nodes > 1)
    if codes.ndim == 0:
        graphs = [a[0] for a in _graphs(codes.reshape(1), generation, cluster, coefficients)]
    else:
        found, back = np.unique(codes, return_inverse=True)
        graphs = [np.asarray(a[back]).reshape(ranks.shape) for a in _graphs(found, generation, cluster, coefficients)]
    return _Job(
        op=op,
        size=size,
        ranks=ranks,
        ranks_per_node=per_node,
        nodes=nodes,
        ring_channels=graphs[0],
        ring_speed=graphs[1],
        nvls_channels=graphs[2],
        nvls_speed=graphs[3],
        ll_max=_ll_max(generation, nodes, amd=coefficients.out.amd_hosts),
        generation=generation,
        nvlink=cluster.scale_up.family.startswith("nvlink"),
        pcie=cluster.scale_up.family.startswith("pcie"),
        coefficients=coefficients,
    )


def _graphs(
    codes: Ints, generation: str, cluster: ClusterSpec, coefficients: NetworkCoefficients
) -> tuple[Floats, Floats, Floats, Floats]:
    """Channels and speeds of the ring, channels and speeds of NVLS.

    Args:
        codes: Ranks per node · 2, plus 1 where the group has several nodes. Shape (groups,), as all results.
        generation: Row of the tables.
        cluster: Links and ports.
        coefficients: Efficiencies of the networks.
    """
    up_gbs = cluster.scale_up.bytes_per_s * coefficients.up.efficiency / _GB
    nic_gbs = cluster.scale_out.nic_bytes_per_s * (coefficients.out.believed or coefficients.out.efficiency) / _GB
    per_rank = cluster.scale_out.nics_per_node / cluster.devices_per_node
    ring = np.empty((2, len(codes)))
    nvls = np.empty((2, len(codes)))
    for i, code in enumerate(codes.tolist()):
        ranks, crosses = code >> 1, bool(code & 1)
        nics = max(round(ranks * per_rank), 1) if crosses else 0
        g = ring_graph(generation, up_gbs if ranks > 1 else 1e9, nic_gbs, nics)
        v = nvls_graph(generation, up_gbs, ranks)
        ring[:, i] = g.channels, g.speed
        nvls[:, i] = v.channels, v.speed
    return ring[0], ring[1], nvls[0], nvls[1]


def _ring_s(job: _Job, protocol: str) -> Floats:
    """Expected seconds of a ring."""
    i, c = PROTOCOLS.index(protocol), job.coefficients
    rate = {
        "ll": np.minimum(job.ll_max, 0.5 * job.bus),
        "ll128": np.minimum(0.92 * job.bus, job.ring_channels * _RING_LL128[job.generation]),
        "simple": job.bus,
    }[protocol]
    believed = RING_HOP_S["pcie" if job.pcie else "nvlink"][i]
    post = (NET_OVERHEAD_AMD_S if c.out.amd_hosts else NET_OVERHEAD_S) * (3.0 if protocol == "simple" else 1.0)
    hop_out = np.where(job.one_rank_a_node, TREE_OUT_HOP_S[i], RING_HOP_S["net"][i]) + job.flush_s(protocol)
    hop_in = np.where(job.nodes > 1, np.maximum(believed, post), believed)
    steps = job.ring_steps
    across = np.where(job.nodes > 1, job.passes * (job.nodes - 1.0), 0.0)
    latency = c.base_s[i] + (steps - across) * hop_in + across * hop_out
    if job.op == "broadcast":
        latency = c.base_s[i] + steps * np.where(job.nodes > 1, hop_out, hop_in)
    if protocol == "simple" and job.op == "all_reduce":
        plateau = 1.9 if job.generation == "volta" else 1.4
        long = (job.nodes > 1) & (job.size / (job.ring_channels * job.ranks) >= 64)
        latency = np.where(long, latency * plateau, latency)
    return np.asarray(np.where(job.allows(protocol), latency + job.size / (rate * job.ring_ratio * _GB), np.inf))


def _tree_s(job: _Job, protocol: str) -> Floats:
    """Expected seconds of a double binary tree; its bus speed bends at medium sizes."""
    i, channels = PROTOCOLS.index(protocol), job.ring_channels
    tree = np.minimum(0.92 * job.bus, channels * np.asarray(_TREE_SIMPLE[job.generation])[job.row])
    if protocol == "ll":
        tree = np.minimum(tree / 3.8, job.ll_max)
    elif protocol == "ll128":
        most = channels * np.asarray(_TREE_LL128[job.generation])[job.row]
        tree = np.minimum(tree * np.where(job.nodes > 1, 120 / 128, 7 / 9), most)
    slot = np.clip(np.floor(np.log2(np.maximum(job.size, 64.0) / 64.0)), 0, 23).astype(np.int64)
    tree = 0.5 * tree * _TREE_CORRECTION[i][slot]
    inner = (TREE_UP_HOP_S if job.nvlink else TREE_UP_HOP_PCIE_S)[i]
    outer = TREE_OUT_HOP_S[i] + job.flush_s(protocol)
    latency = TREE_BASE_S[i] + 2.0 * ((job.ranks_per_node - 1.0) * inner + job.doublings() * outer)
    return np.asarray(np.where(job.allows(protocol), latency + job.size / (tree * _GB), np.inf))


def _pat_s(job: _Job) -> Floats:
    """Expected seconds of PAT, which NCCL takes with one rank a node."""
    extra = job.coefficients.out.net_latency_s
    latency = PAT_BASE_S + job.doublings() * (PAT_HOP_S + 2.0 * extra / 3.5) + PAT_RANK_S * job.ranks
    seconds = latency + job.size / (PAT_RATE * job.bus * job.ring_ratio * _GB)
    return np.asarray(np.where(job.one_rank_a_node, seconds, np.inf))


def _nvls_s(job: _Job) -> Floats:
    """Expected seconds of NVLS in one node."""
    speed = np.maximum(job.nvls_channels * job.nvls_speed, 1e-9) * 5 / 6
    allowed = (job.nodes <= 1) & (job.ranks_per_node >= 2)
    return np.asarray(np.where(allowed, NVLS_HOP_S + job.size / (speed * _GB), np.inf))


def _nvls_tree_s(job: _Job) -> Floats:
    """Expected seconds of NVLS in each node and a tree between the nodes."""
    extra = job.coefficients.out.net_latency_s
    per_channel = np.minimum(job.nvls_speed, np.where(job.nodes > 2, job.ring_speed / 2, job.ring_speed))
    latency = NVLS_HOP_S + 2.0 * job.doublings() * (NVLS_TREE_OUT_HOP_S + 2.0 * extra)
    speed = np.maximum(np.minimum(job.nvls_channels, job.ring_channels) * per_channel, 1e-9) * 5 / 6
    allowed = (job.nodes > 1) & (job.ranks_per_node >= 2)
    return np.asarray(np.where(allowed, latency + job.size / (speed * _GB), np.inf))


def explain(
    op: str, nbytes: float, place: GroupPlacement, cluster: ClusterSpec, coefficients: NetworkCoefficients
) -> list[tuple[str, str, float]]:
    """(algorithm, protocol, NCCL's expected seconds) of what is allowed for one collective, the chosen one first."""
    rows = [
        (e.algorithm, e.protocol, float(e.time_s))
        for e in table(op, np.asarray(nbytes, dtype=np.float64), place, cluster, coefficients)
    ]
    return sorted((r for r in rows if np.isfinite(r[2])), key=lambda r: r[2])
