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

from windtunnel.arrays import Floats, Ints
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


def table(
    op: str, nbytes: Floats, place: GroupPlacement, cluster: ClusterSpec, coefficients: NetworkCoefficients
) -> list[Entry]:
    """NCCL's expected seconds for every (algorithm, protocol) that it would consider.

    Shapes: `nbytes` and the fields of `place` broadcast.
    """
    gen = generation_of(cluster)
    n, m, k, size = np.broadcast_arrays(place.size, place.ranks_per_domain, place.num_domains, nbytes)
    up_gbs = cluster.scale_up.bytes_per_s * coefficients.up.efficiency / _GB
    nic_gbs = cluster.scale_out.nic_bytes_per_s * (coefficients.out.believed or coefficients.out.efficiency) / _GB
    per_rank = cluster.scale_out.nics_per_node / cluster.devices_per_node

    def graphs(index: Ints) -> tuple[Floats, Floats, Floats, Floats]:
        ring = np.empty((2, len(index)))
        nvls = np.empty((2, len(index)))
        for i, code in enumerate(index.tolist()):
            ranks, crosses = code >> 1, bool(code & 1)
            nics = max(round(ranks * per_rank), 1) if crosses else 0
            g = ring_graph(gen, up_gbs if ranks > 1 else 1e9, nic_gbs, nics)
            v = nvls_graph(gen, up_gbs, ranks)
            ring[:, i] = g.channels, g.speed
            nvls[:, i] = v.channels, v.speed
        return ring[0], ring[1], nvls[0], nvls[1]

    codes = np.asarray(m).astype(np.int64) * 2 + (k > 1)
    if codes.ndim == 0:
        rc, rs, vc, vs = (a[0] for a in graphs(codes.reshape(1)))
    else:
        found, back = np.unique(codes, return_inverse=True)
        rc, rs, vc, vs = (np.asarray(a[back]).reshape(n.shape) for a in graphs(found))
    bus = rc * rs
    nodes = np.clip(k - 1.0, 0.0, 2.0).astype(np.int64)
    extra = coefficients.out.net_latency_s
    believed = RING_HOP_S["pcie" if cluster.scale_up.family.startswith("pcie") else "nvlink"]
    passes = 2.0 if op == "all_reduce" else 1.0
    steps = passes * (n - 1.0) if op != "broadcast" else n
    across = np.where(k > 1, passes * (k - 1.0), 0.0)
    ring_ratio = n / np.maximum(steps, 1.0)
    out: list[Entry] = []
    c = coefficients
    ppn1 = (m <= 1) & (k > 1)
    overhead_s = NET_OVERHEAD_AMD_S if c.out.amd_hosts else NET_OVERHEAD_S
    ll_max = _ll_max(gen, k, amd=c.out.amd_hosts)
    for i, proto in enumerate(PROTOCOLS):
        if proto not in c.out.protocols:
            allowed = k <= 1
        else:
            allowed = np.ones(n.shape, dtype=bool)
        rate = {
            "ll": np.minimum(ll_max, 0.5 * bus),
            "ll128": np.minimum(0.92 * bus, rc * _RING_LL128[gen]),
            "simple": bus,
        }[proto]
        if proto == "ll128" and not cluster.scale_up.family.startswith("nvlink"):
            allowed = np.zeros(n.shape, dtype=bool)
        flush = extra * (2.0 if proto == "simple" else 1.0)
        hop_out = np.where(ppn1, TREE_OUT_HOP_S[i], RING_HOP_S["net"][i]) + flush
        post = overhead_s * (3.0 if proto == "simple" else 1.0)
        hop_in = np.where(k > 1, np.maximum(believed[i], post), believed[i])
        latency = c.base_s[i] + (steps - across) * hop_in + across * hop_out
        if op == "broadcast":
            latency = c.base_s[i] + steps * np.where(k > 1, hop_out, hop_in)
        if proto == "simple" and op == "all_reduce":
            plateau = 1.9 if gen == "volta" else 1.4
            latency = np.where((k > 1) & (size / (rc * n) >= 64), latency * plateau, latency)
        out.append(Entry("ring", proto, np.where(allowed, latency + size / (rate * ring_ratio * _GB), np.inf)))
        if op == "all_reduce":
            tree = np.minimum(0.92 * bus, rc * np.asarray(_TREE_SIMPLE[gen])[nodes])
            if proto == "ll":
                tree = np.minimum(tree / 3.8, ll_max)
            elif proto == "ll128":
                tree = np.minimum(tree * np.where(k > 1, 120 / 128, 7 / 9), rc * np.asarray(_TREE_LL128[gen])[nodes])
            slot = np.clip(np.floor(np.log2(np.maximum(size, 64.0) / 64.0)), 0, 23).astype(np.int64)
            tree = 0.5 * tree * _TREE_CORRECTION[i][slot]
            inner = (TREE_UP_HOP_S if cluster.scale_up.family.startswith("nvlink") else TREE_UP_HOP_PCIE_S)[i]
            depth = np.floor(np.log2(np.maximum(k, 1.0)))
            latency = TREE_BASE_S[i] + 2.0 * ((m - 1.0) * inner + depth * (TREE_OUT_HOP_S[i] + flush))
            out.append(Entry("tree", proto, np.where(allowed, latency + size / (tree * _GB), np.inf)))
    if op in ("all_gather", "reduce_scatter"):
        latency = PAT_BASE_S + np.floor(np.log2(np.maximum(k, 1.0))) * (PAT_HOP_S + 2.0 * extra / 3.5) + PAT_RANK_S * n
        time = np.where((m <= 1) & (k > 1), latency + size / (PAT_RATE * bus * ring_ratio * _GB), np.inf)
        out.append(Entry("pat", "simple", time))
    if op == "all_reduce" and cluster.scale_up.in_network_reduction and gen in ("hopper", "blackwell"):
        one = (k <= 1) & (m >= 2)
        out.append(
            Entry(
                "nvls", "simple", np.where(one, NVLS_HOP_S + size / (np.maximum(vc * vs, 1e-9) * 5 / 6 * _GB), np.inf)
            )
        )
        many = (k > 1) & (m >= 2)
        per_channel = np.minimum(vs, np.where(k > 2, rs / 2, rs))
        latency = NVLS_HOP_S + 2.0 * np.floor(np.log2(np.maximum(k, 1.0))) * (NVLS_TREE_OUT_HOP_S + 2.0 * extra)
        speed = np.maximum(np.minimum(vc, rc) * per_channel, 1e-9) * 5 / 6
        out.append(Entry("nvls_tree", "simple", np.where(many, latency + size / (speed * _GB), np.inf)))
    return out


def explain(
    op: str, nbytes: float, place: GroupPlacement, cluster: ClusterSpec, coefficients: NetworkCoefficients
) -> list[tuple[str, str, float]]:
    """(algorithm, protocol, NCCL's expected seconds) of what is allowed for one collective, the chosen one first."""
    rows = [
        (e.algorithm, e.protocol, float(e.time_s))
        for e in table(op, np.asarray(nbytes, dtype=np.float64), place, cluster, coefficients)
    ]
    return sorted((r for r in rows if np.isfinite(r[2])), key=lambda r: r[2])
