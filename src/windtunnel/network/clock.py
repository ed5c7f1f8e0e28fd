"""From bytes and hops to seconds: `a + √(τ·x) + x`, x the transfer time of the busiest port.

* a: kernel start plus hops times the hop latency of the protocol.
* x: bytes over rate on the scale-up link and on the group's share of the NICs; their maximum where the algorithm
  pipelines chunks through both, else their sum.
* √(τ·x): cutting S bytes into chunks of size q costs (S/q)·o of overhead and q/b of pipeline fill; the best q leaves
  2·√(o·S/b), so τ = 4·o times the depth. It is what nccl-tests curves show between 1 MB and 1 GB.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.network import nccl
from windtunnel.network.coefficients import PROTOCOLS, NetworkCoefficients
from windtunnel.network.collectives.base import Traffic
from windtunnel.network.groups import GroupPlacement
from windtunnel.network.host import host_memory_bytes_per_s, link_bytes_per_s
from windtunnel.specs.cluster import ClusterSpec

PUTS = frozenset(("put_one_shot", "put_two_shot", "put_switch", "put_hierarchical", "nvrar"))
"""Algorithms of puts and signals: a kernel of their own, one wire latency a hop, no chunks."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Bytes per second that one rank of a group can use, one direction."""

    up: Floats
    up_switch: Floats
    out: Floats
    host_link: float = np.inf
    """Between a device and its host, one direction."""
    host_memory: float = np.inf
    """A device's share of its host's memory, reads and writes together."""


def rates(cluster: ClusterSpec, place: GroupPlacement, coefficients: NetworkCoefficients) -> Rates:
    """Rates of one rank: its scale-up link, and its part of the NICs that its group gets in a domain.

    The NICs of a domain are shared by the groups that communicate at once; a rank drives at most the NICs next to it.
    The ring of a group with one rank in a node enters and leaves by that rank's NIC; with all ranks, by one of the
    ranks next to the NIC. With some of them (strided by the tensor axis) it has to return to its NIC from a rank behind
    another PCIe switch or socket, or to leave by another NIC: `partial_node_scale` is what that leaves of the rate.
    """
    nodes_per_domain = max(cluster.scale_up_domain / cluster.devices_per_node, 1.0)
    if cluster.scale_up_domain < cluster.devices_per_node:
        nodes_per_domain = cluster.scale_up_domain / cluster.devices_per_node
    nics = cluster.scale_out.nics_per_node * nodes_per_domain
    share = nics * cluster.scale_out.nic_bytes_per_s / place.groups_per_domain
    own = (
        max(np.ceil(cluster.scale_out.nics_per_node / cluster.devices_per_node), 1.0)
        * cluster.scale_out.nic_bytes_per_s
    )
    out = np.minimum(share / place.ranks_per_domain, own)
    partial = (place.ranks_per_domain > 1) & (place.groups_per_domain > 1)
    out = out * np.where(partial, coefficients.partial_node_scale, 1.0)
    link = cluster.scale_up.bytes_per_s * coefficients.scale_up_scale
    if cluster.scale_up.topology == "mesh":
        # Point-to-point links to each peer: a group uses the links among its own ranks.
        peers = max(cluster.scale_up_domain - 1, 1)
        part = np.clip((place.ranks_per_domain - 1.0) / peers, 1.0 / peers, 1.0)
    else:
        part = np.ones_like(place.ranks_per_domain)
    axes = max(cluster.scale_up.torus_axes, 1) if cluster.scale_up.topology == "torus" else 1
    fraction = np.minimum(place.torus_axes, axes) / axes if axes > 1 else np.float64(1.0)
    return Rates(
        np.asarray(link * coefficients.up.efficiency * fraction * part),
        np.asarray(link * (coefficients.up.switch_efficiency or coefficients.up.efficiency)),
        np.asarray(out * coefficients.out.efficiency * coefficients.scale_out_scale),
        host_link=link_bytes_per_s(cluster),
        host_memory=host_memory_bytes_per_s(cluster),
    )


def latency_s(
    op: str,
    name: str,
    protocol: str,
    traffic: Traffic,
    place: GroupPlacement,
    cluster: ClusterSpec,
    coefficients: NetworkCoefficients,
) -> tuple[float, Floats]:
    """(kernel start, time of the dependent messages).

    Chains take NCCL's ring hop, trees its tree hop; a broadcast over several nodes takes a network hop for every rank,
    as NCCL counts it ("chunk latency", `src/graph/tuning.cc`). A message of a point-to-point pair takes one LL hop
    inside (5 µs for 2 KiB on H100) and a Simple hop between nodes (17 to 24 µs on H100 and A100, vidur send_recv rows).
    """
    c, i = coefficients, PROTOCOLS.index(protocol)
    extra = c.net_latency_s(cluster)
    if name in PUTS:
        fence = 2.0 if protocol == "simple" else 1.0  # data, then the flag; LL carries the flag in the data
        n, m, k = place.size, place.ranks_per_domain, place.num_domains
        peers = {"put_one_shot": n - m, "put_two_shot": n - m, "put_hierarchical": k - 1.0, "put_switch": k - 1.0}
        posting = np.maximum(peers.get(name, np.ones_like(k)) - 1.0, 0.0) * (traffic.out_hops > 0) * c.peer_s
        puts = fence * (traffic.up_hops * c.put_hop_s + traffic.out_hops * c.out.hop_s[0])
        return c.put_base_s, np.asarray(puts + traffic.out_hops * extra + posting)
    if traffic.in_network:
        out = nccl.NVLS_TREE_OUT_HOP_S if name == "nvls_tree" else nccl.NVLS_OUT_HOP_S
        return 0.0, np.asarray(traffic.up_hops * c.up.switch_hop_s + traffic.out_hops * (out + extra))
    if op in ("send_recv", "all_to_all"):
        own = c.out.p2p_hop_s if op == "send_recv" else c.out.exchange_hop_s
        hops = traffic.up_hops * c.up.hop_s[0] + traffic.out_hops * ((c.out.hop_s[2] if own is None else own) + extra)
        posts = np.maximum(place.size - 2.0, 0.0) * c.peer_s + _sent_s(place, cluster, c) if op == "all_to_all" else 0.0
        return c.p2p_base_s, np.asarray(hops + posts)
    if name in nccl.COLLNET_HOP_S:
        up_hop, out_hop = nccl.COLLNET_HOP_S[name]
        return 0.0, np.asarray(traffic.up_hops * up_hop + traffic.out_hops * (out_hop + extra))
    if name == "pat":
        hops = np.log2(np.maximum(place.num_domains, 1.0)) * (nccl.PAT_HOP_S + extra / 3.5)
        return nccl.PAT_BASE_S, np.asarray(hops + nccl.PAT_RANK_S * place.size)
    if name == "torus":
        return c.torus_base_s, np.asarray(traffic.up_hops * c.up.hop_s[i] + traffic.out_hops * (c.out.hop_s[i] + extra))
    if name == "tree":
        family = cluster.scale_up.family
        up = nccl.TREE_UP_HOP_S if family.startswith("nvlink") else nccl.TREE_UP_HOP_PCIE_S
        up = c.up.hop_s if family in nccl.THROUGH_HOST else up
        return nccl.TREE_BASE_S[i], np.asarray(
            traffic.up_hops * up[i] + traffic.out_hops * ((c.out.tree_hop_s or nccl.TREE_OUT_HOP_S)[i] + extra)
        )
    if op == "broadcast":  # chunks fill the whole chain one after the other: NCCL counts a network hop for every rank
        steps, hop = traffic.up_hops + traffic.out_hops, c.out.hop_s[i] + extra
        return c.base_s[i], np.asarray(steps * np.where(traffic.out_hops > 0, hop, c.up.hop_s[i]))
    inside = np.where(traffic.out_hops > 0, np.maximum(c.up.hop_s[i], c.out.message_s), c.up.hop_s[i])
    return c.base_s[i], np.asarray(traffic.up_hops * inside + traffic.out_hops * (c.out.hop_s[i] + extra))


def _sent_s(place: GroupPlacement, cluster: ClusterSpec, c: NetworkCoefficients) -> Floats:
    """Seconds in which the ranks behind one NIC post their messages to other nodes, beyond `peer_s` of each."""
    remote = np.maximum(place.size - place.ranks_per_domain, 0.0)
    sharing = np.maximum(place.ranks_per_domain / max(cluster.scale_out.nics_per_node, 1), 1.0)
    return np.asarray(remote * sharing * max(c.out.message_s - c.peer_s, 0.0))


def oversubscription(cluster: ClusterSpec, place: GroupPlacement, op: str, leaf_domains: int) -> Floats:
    """Slow-down of NIC traffic by thin uplinks above the leaf switches.

    A chain (ring, tree) of neighbouring domains crosses a leaf's uplinks once per group that passes through it:
    `stride` interleaved groups of domains out of `leaf_domains` load them. An all-to-all sends the part (k −
    k_leaf)/(k − 1) of its traffic up. An explicit fabric is asked link by link, algorithm by algorithm (`fabric`).
    """
    if cluster.scale_out.fabric is not None:
        return np.ones_like(place.num_domains)
    thin = cluster.scale_out.oversubscription
    k = place.num_domains
    if thin <= 1.0:
        return np.ones_like(k)
    apart = np.clip(place.stride / cluster.scale_up_domain, 1.0, leaf_domains)
    in_leaf = np.maximum(np.minimum(k, leaf_domains / apart), 1.0)
    if op == "all_to_all":
        load = thin * (k - in_leaf) / np.maximum(k - 1.0, 1.0)
    else:
        load = np.where(k > in_leaf, thin * apart / leaf_domains, 0.0)
    return np.asarray(np.maximum(load, 1.0))


def transfer_s(traffic: Traffic, rate: Rates, thin: Floats) -> Floats:
    """x: seconds that the busiest port needs."""
    up = traffic.up_bytes / (rate.up_switch if traffic.in_network else rate.up)
    out = traffic.out_bytes * thin / rate.out
    if traffic.host is not None:
        host = np.maximum(traffic.host.link_bytes / rate.host_link, traffic.host.memory_bytes / rate.host_memory)
        up = np.maximum(up, host)
    return np.asarray(np.maximum(up, out) if traffic.pipelined else up + out)
