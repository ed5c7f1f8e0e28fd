"""Peers behind network address translators (NATs): who reaches whom, who needs a relay, how long joining takes.

A joiner looks its peers up (each round of look-ups halves the distance to them), then tries to open a way through both
NATs; where that fails it falls back on a relay, whose bandwidth all relayed pairs share.

Source: Lattica (arXiv 2510.00183), sections on NAT traversal and discovery; which pairs can be opened: Ford, Srisuresh
and Kegel 2005, Peer-to-peer communication across network address translators, section 5.1; look-ups: Maymounkov and
Mazières 2002, Kademlia.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2

import numpy as np

from windtunnel.arrays import Floats, Mask
from windtunnel.learning.randomness import Draws

OPEN, CONE, PORT_RESTRICTED, SYMMETRIC = range(4)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerMesh:
    """Who is there. Shares of NATs sum to at most 1; the rest are cones that open for any address."""

    peers: int
    symmetric: float
    """Share of peers whose NAT has another port for each destination."""
    port_restricted: float = 0.3
    open: float = 0.1
    """Share of peers without a NAT."""
    partners: int = 8
    """Peers that a joiner connects to."""
    round_trip_s: float = 0.08
    round_trip_spread: float = 0.4
    """Standard deviation of the logarithm of round trips."""
    punch: float = 0.9
    """Probability that a way opens where both NATs allow it."""
    patience_s: float = 5.0
    """Until a joiner gives a way up and asks a relay."""
    relays: int = 4
    relay_bytes_per_s: float = 125e6
    link_bytes_per_s: float = 12.5e6


@dataclass(frozen=True, slots=True)
class MeshFigures:
    """What joining costs."""

    join_s: Floats
    """Of each peer until all its partners are connected, shape (peers,)."""
    relay_share: float
    """Of connections."""
    direct_bytes_per_s: float
    relayed_bytes_per_s: float
    """Of a relayed connection while all of them send."""


def join_mesh(mesh: PeerMesh, *, seed: int = 1) -> MeshFigures:
    """Let every peer join and connect to its partners.

    Args:
        mesh: Who is there.
        seed: Of NATs, round trips and attempts; a peer's draws do not depend on the shares.
    """
    draws, who = Draws(seed), np.arange(mesh.peers)
    kind = _nats(mesh, draws.uniforms("nat", who, 0, 1)[:, 0])
    partner = draws.integers("partner", who, 0, mesh.partners, below=mesh.peers)
    trips = mesh.round_trip_s * np.exp(mesh.round_trip_spread * draws.normals("round trip", who, 0, mesh.partners + 1))
    opened = _can_open(kind[:, None], kind[partner]) & (
        draws.uniforms("punch", who, 0, mesh.partners) < mesh.punch
    ) | _reachable(kind[:, None], kind[partner])
    look_up = ceil(log2(max(mesh.peers, 2))) * trips[:, -1]
    direct = 2.0 * trips[:, :-1]
    each = np.where(opened, direct, mesh.patience_s + direct)
    relayed = int((~opened).sum())
    share = mesh.relays * mesh.relay_bytes_per_s / max(relayed, 1)
    return MeshFigures(
        join_s=look_up + each.max(axis=1),
        relay_share=relayed / opened.size,
        direct_bytes_per_s=mesh.link_bytes_per_s,
        relayed_bytes_per_s=min(mesh.link_bytes_per_s, share),
    )


def _nats(mesh: PeerMesh, drawn: Floats) -> Floats:
    """Kind of each peer's NAT; a larger share of symmetric ones takes from the others without mixing them anew."""
    rest = np.clip((drawn - mesh.symmetric) / max(1.0 - mesh.symmetric, 1e-12), 0.0, 1.0)
    other = np.where(rest < mesh.open, OPEN, np.where(rest < mesh.open + mesh.port_restricted, PORT_RESTRICTED, CONE))
    return np.asarray(np.where(drawn < mesh.symmetric, SYMMETRIC, other))


def _reachable(one: Floats, other: Floats) -> Mask:
    """A peer without a NAT is reached by anybody."""
    return np.asarray((one == OPEN) | (other == OPEN))


def _can_open(one: Floats, other: Floats) -> Mask:
    """Not where one is symmetric and the other symmetric or port-restricted: nobody knows the port."""
    narrow = ((one == SYMMETRIC) & (other >= PORT_RESTRICTED)) | ((other == SYMMETRIC) & (one >= PORT_RESTRICTED))
    return np.asarray(~narrow)
