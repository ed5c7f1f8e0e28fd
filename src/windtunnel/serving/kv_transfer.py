"""What moving a cache between two instances takes: bytes of its tokens over the links of their devices.

Each device of a decode instance needs its share of a prompt's cache; the devices of the prefill rank that computed it
send them, all at once. Inside one scale-up domain they use that network, else their part of the node's ports; between
groups of a mixed cluster, the ports that join the groups. Rates and latencies are those of the network model's long
point-to-point messages. An instance of several ranks of attention data parallelism sends and receives for as many
requests at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from windtunnel.network import NetworkCoefficients, placement
from windtunnel.network.clock import rates
from windtunnel.network.packing import Packer, Strided
from windtunnel.serving.engine_defaults.kv_transfer_defaults import kv_transfer_defaults
from windtunnel.serving.event_loop.fleet import FirstToken, KvTransfer
from windtunnel.serving.kv_capacity.blocks_per_instance import STATE_TOKENS
from windtunnel.specs.cluster import ClusterSpec, MixedCluster, outward

if TYPE_CHECKING:
    from windtunnel.serving.engine_defaults import Instance
    from windtunnel.serving.event_loop.instance_limits import Limits
    from windtunnel.specs.model import ModelSpec
    from windtunnel.specs.serving import PoolSpec, ServingSpec


class Pool(Protocol):
    """The parts of a pool that KV transfer reads."""

    @property
    def spec(self) -> PoolSpec: ...  # noqa: D102
    @property
    def group(self) -> int: ...  # noqa: D102
    @property
    def cluster(self) -> ClusterSpec: ...  # noqa: D102
    @property
    def model(self) -> ModelSpec: ...  # noqa: D102
    @property
    def instance(self) -> Instance: ...  # noqa: D102
    @property
    def limits(self) -> Limits: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Place:
    """Where one instance sits in the cluster."""

    pool: int
    group: int
    domain: int
    """Scale-up domain of its first device."""
    whole: bool
    """Whether the whole instance is in that domain."""


@dataclass(frozen=True, slots=True)
class Link:
    """What one device can send or receive, bytes a second, and the latency of a message."""

    bytes_per_s: float
    latency_s: float


def places(pools: Sequence[Pool]) -> list[Place]:
    """Instances fill each group in the order of the pools; none straddles two domains that fits into one."""
    at: dict[int, int] = {}
    out = []
    for p, pool in enumerate(pools):
        size, domain = pool.spec.plan.num_devices, max(pool.cluster.scale_up_domain, 1)
        for _ in range(pool.spec.replicas):
            first = at.get(pool.group, 0)
            if first % domain + min(size, domain) > domain and first + size + domain <= pool.cluster.num_devices:
                first += domain - first % domain
            out.append(Place(p, pool.group, first // domain, first % domain + size <= domain))
            at[pool.group] = first + size
    return out


def inside(cluster: ClusterSpec) -> Link:
    """One device on its scale-up network."""
    own = NetworkCoefficients.for_cluster(cluster)
    place = placement(2, 1, max(cluster.scale_up_domain, 2))
    return Link(float(rates(cluster, place, own).up), own.p2p_base_s + own.up.hop_s[0])


def outside(cluster: ClusterSpec) -> Link:
    """One device's part of the ports of its node, all devices of the node sending."""
    own = NetworkCoefficients.for_cluster(cluster)
    size = max(cluster.scale_up_domain, 1)
    rate = float(rates(cluster, placement(2, size, size), own).out) / max(cluster.scale_out.oversubscription, 1.0)
    return Link(rate, own.p2p_base_s + own.out.hop_s[2] + own.net_latency_s(cluster))


@dataclass(frozen=True, slots=True)
class TransferSettings:
    """`specs.transfer.TransferSpec` with nothing left open."""

    mode: str
    reserve_first: bool
    first_token: str
    control_s: float
    pieces: str = "contiguous"


def transfer_settings(serving: ServingSpec, request_s: float) -> TransferSettings:
    """Decide how KV caches move: as the scenario says, else as the engine does.

    Args:
        serving: section of the scenario.
        request_s: the engine's time for a request, outside of its iterations.
    """
    own, usual = serving.transfer, kv_transfer_defaults(serving.engine)
    mode = own.mode or usual.mode
    reserve = usual.reserve_first if own.reserve_first is None else own.reserve_first
    reserve = reserve or mode != "whole"
    hop = request_s if usual.proxied and not reserve else 0.0
    control_s = hop if own.control_s is None else own.control_s
    return TransferSettings(mode, reserve, own.first_token or usual.first_token, control_s, own.pieces)


def lane_transfers(
    pools: Sequence[Pool], cluster: ClusterSpec, way: TransferSettings, *, router: int = 0
) -> KvTransfer:
    """Compute the seconds of moving KV caches between all lanes.

    Args:
        pools: pools of the deployment, mixed and prefill ones first.
        cluster: cluster of all pools.
        way: how caches move.
        router: rule by which the decode instance is chosen.
    """
    spots = places(pools)
    groups = outward(cluster) if isinstance(cluster, MixedCluster) else (cluster,)
    lanes = [i for i, spot in enumerate(spots) for _ in range(pools[spot.pool].spec.plan.pp)]
    n = len(lanes)
    token_s, fixed_s = np.zeros((3, n, n)), np.zeros((n, n))
    pieces = way.pieces
    known: dict[tuple[int, int, bool, bool], tuple[float, float, float, float]] = {}
    for a in range(n):
        x = spots[lanes[a]]
        if pools[x.pool].spec.role != "prefill":
            continue
        for b in range(n):
            y = spots[lanes[b]]
            if pools[y.pool].spec.role != "decode":
                continue
            across = x.group != y.group
            near = not across and x.domain == y.domain and x.whole and y.whole
            key = x.pool, y.pool, near, across
            if key not in known:
                ends = [
                    inside(pools[s.pool].cluster)
                    if near
                    else outside(groups[s.group])
                    if across
                    else outside(pools[s.pool].cluster)
                    for s in (x, y)
                ]
                known[key] = _seconds(pools[x.pool], pools[y.pool], ends[0], ends[1], pieces)
            *token_s[:, a, b], fixed_s[a, b] = known[key]
    source = next(pool for pool in pools if pool.spec.role == "prefill")
    layers = len(source.model.layer_kinds())
    return KvTransfer(
        token_s=token_s,
        fixed_s=fixed_s,
        port=np.array(lanes),
        control_s=way.control_s,
        pieces=layers if way.mode == "layers" else 1,
        chunk=source.limits.budget if way.mode == "chunks" else 0,
        early=way.reserve_first,
        first=FirstToken[way.first_token.upper()],
        router=router,
    )


def _seconds(a: Pool, b: Pool, source: Link, target: Link, pieces: str) -> tuple[float, float, float, float]:
    """Seconds per token: alone, of the sender's port, of the receiver's; and the rest of a transfer."""
    each = b.instance.capacity.bytes_per_token
    needed = each * _rank(b)
    sending, taking = needed / (_rank(a) * source.bytes_per_s), each / target.bytes_per_s
    alone = max(sending, taking)
    if pieces != "contiguous":
        alone = _in_pieces(b, each, alone, pieces)
        sending, taking = max(sending, alone), max(taking, alone)
    own = 1 if b.limits.block == STATE_TOKENS else b.limits.sequence_blocks
    states = own * b.limits.block * alone
    latency = max(source.latency_s, target.latency_s)
    return alone, sending / a.spec.plan.dp, taking / b.spec.plan.dp, latency + states


def _in_pieces(pool: Pool, each: float, wire_s: float, pieces: str) -> float:
    """Seconds per token of a cache whose blocks lie apart: copies run next to the wire, packing before and after it.

    Args:
        pool: That keeps the cache.
        each: Bytes of a token on one of its devices.
        wire_s: Of a token alone.
        pieces: `copied` or `packed`.
    """
    layers = len(pool.model.layer_kinds()) / pool.spec.plan.pp
    per_token = 2.0 * layers / pool.limits.block
    what = Strided(per_token, each / per_token)
    own = Packer(
        memory_bytes_per_s=pool.cluster.device.memory_bytes_per_s,
        host_bytes_per_s=pool.cluster.device.pcie_bytes_per_s,
        wire_bytes_per_s=1.0,
        kernel_s=0.0,
    )
    if pieces == "copied":
        return max(wire_s, what.pieces * own.copy_s)
    return wire_s + 2.0 * own.packed_s(what)


def _rank(pool: Pool) -> int:
    """Devices that hold one request's cache."""
    return pool.spec.plan.tp * pool.spec.plan.pp
