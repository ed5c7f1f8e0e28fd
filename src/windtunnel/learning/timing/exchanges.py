"""What one message puts on the links: seconds for each byte, seconds of latency, bytes of one worker and of all.

Collectives are those of `network.collectives`: a worker is a rank, a site is a domain with one way out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.learning.messages import Kind, Message
from windtunnel.learning.randomness import Draws
from windtunnel.learning.timing.links import Link
from windtunnel.network import collectives
from windtunnel.network.groups import GroupPlacement

UP, DOWN = "up", "down"
COLLECTIVES: tuple[Kind, ...] = ("all_reduce", "all_gather", "reduce_scatter", "broadcast")
BOTH = (UP, DOWN)
ALGORITHMS = ("ring", "tree", "hierarchical")
"""Of collectives among workers, without those that need a vendor's switches."""
Latencies = Callable[[Ints, Ints], Floats]
"""(first workers, second workers) → seconds between them, one way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """What each byte of a worker's encoding costs, for all workers that take part."""

    directions: tuple[str, ...]
    """Of a worker's link that it holds while it moves."""
    s_per_byte: float
    """Of all that take part together, what their links meet in included."""
    own_s_per_byte: float = 0.0
    """Of one worker on its own link; 0 for collectives, which are one transfer."""
    latency_s: float
    """From the last byte's departure to its arrival at the last worker."""
    sent_per_byte: float
    """Bytes that a worker sends, on average."""
    way_out_per_byte: float
    """Bytes of all workers on their ways out, thus also on what those meet in."""
    inside_per_byte: float = 0.0
    """Bytes of all workers inside their sites."""
    algorithm: str = ""


@dataclass(slots=True)
class Exchanges:
    """Costs of the exchanges of one link, remembered by kind and number of workers that take part."""

    link: Link
    seed: int
    _known: dict[tuple[Kind, int, float], list[Exchange]] = field(default_factory=dict)

    def of(self, message: Message, workers: int, nbytes: float) -> Exchange:
        """What a message costs, by the algorithm that is fastest for its size unless the link names one.

        Args:
            message: Its kind, participants and degree are read.
            workers: That take part where the message names none.
            nbytes: Of one worker's encoding.
        """
        key = (message.kind, len(message.participants) or workers, message.degree)
        if key not in self._known:
            kind, n, degree = key
            self._known[key] = self._collectives(kind, n) if kind in COLLECTIVES else [self._plain(kind, n, degree)]
        found = self._known[key]
        return found[0] if len(found) == 1 else min(found, key=lambda e: e.latency_s + e.s_per_byte * nbytes)

    def pair_latencies(self, first: Ints, second: Ints) -> Floats:
        """Seconds between pairs of workers, one way, the same in both directions; shape of the arrays."""
        link = self.link
        if not link.latency_spread:
            return np.full(len(first), link.latency_s)
        low, high = np.minimum(first, second), np.maximum(first, second)
        drawn = Draws(self.seed).normals("latency", low, high, 1)[:, 0]
        return np.asarray(link.latency_s * np.exp(link.latency_spread * drawn))

    def _plain(self, kind: Kind, n: int, degree: float) -> Exchange:
        link = self.link
        rate = {"to_server": link.up_bytes_per_s, "from_server": link.down_bytes_per_s}.get(
            kind, min(link.up_bytes_per_s, link.down_bytes_per_s)
        )
        times = degree if kind == "neighbours" else 1.0
        port = min(n, link.site.workers) if link.site is not None else 1
        sent = 0.0 if kind == "from_server" else times
        return Exchange(
            directions={"to_server": (UP,), "from_server": (DOWN,)}.get(kind, BOTH),
            s_per_byte=max(times * port / rate, n * times / link.shared_bytes_per_s),
            own_s_per_byte=times * port / rate,
            latency_s=link.latency_s,
            sent_per_byte=sent,
            way_out_per_byte=n * times,
            algorithm=kind,
        )

    def _collectives(self, kind: Kind, n: int) -> list[Exchange]:
        names = ALGORITHMS if self.link.algorithm == "fastest" else (self.link.algorithm,)
        able = [name for name in names if kind in collectives.get(name).ops] or ["ring"]
        return [self._by(name, kind, n) for name in able]

    def _by(self, name: str, kind: Kind, n: int) -> Exchange:
        link, site = self.link, self.link.site
        m = 1 if site is None else min(site.workers, n)
        k = -(-n // m)
        place = GroupPlacement(
            **{
                key: np.asarray(float(value))
                for key, value in {
                    "size": n,
                    "ranks_per_domain": m,
                    "num_domains": k,
                    "groups_per_domain": 1,
                    "stride": 1,
                    "torus_axes": 1,
                    "torus_hops": 0,
                }.items()
            }
        )
        tensor = float(n) if kind == "all_gather" else 1.0  # `network` counts the gathered tensor
        traffic = collectives.get(name).traffic(kind, np.asarray(tensor), place)
        inside, out = float(traffic.up_bytes), float(traffic.out_bytes)
        inside_s = inside / site.bytes_per_s if site is not None else 0.0
        rate = min(link.up_bytes_per_s, link.down_bytes_per_s)
        out_s = max(out * m / rate, out * n / link.shared_bytes_per_s) if out else 0.0
        latency = float(traffic.out_hops) * link.latency_s * self._stretch(name, kind, k)
        latency += float(traffic.up_hops) * (site.latency_s if site is not None else 0.0)
        return Exchange(
            directions=BOTH,
            s_per_byte=max(inside_s, out_s) if traffic.pipelined else inside_s + out_s,
            latency_s=latency,
            sent_per_byte=inside + out,
            way_out_per_byte=out * n,
            inside_per_byte=inside * n,
            algorithm=name,
        )

    def _stretch(self, name: str, kind: Kind, n: int) -> float:
        """How much longer a collective's chain of messages takes where latencies of pairs differ, of `n` sites."""
        if not self.link.latency_spread or n < 2:
            return 1.0
        plain, drawn = (chain(name, kind, n, latencies) for latencies in (self._equal, self.pair_latencies))
        return drawn / plain

    def _equal(self, first: Ints, second: Ints) -> Floats:
        del second
        return np.full(len(first), self.link.latency_s)


def chain(name: str, kind: Kind, n: int, latencies: Latencies) -> float:
    """Seconds of the longest chain of dependent messages of a collective among `n` workers, bytes left out.

    A ring's rank passes on what it got as soon as it has it, so the last chunk's way is a walk along the ring; a
    tree's node waits for both children, and sends down when its parent has sent.

    Args:
        name: ring, hierarchical (a ring between sites) or tree.
        kind: The operation: an all-reduce goes round the ring twice.
        n: Workers, or sites.
        latencies: (first, second) → seconds between pairs.
    """
    if name == "tree":
        return _tree(n, latencies)
    ranks = np.arange(n)
    edges = latencies(ranks, (ranks + 1) % n)
    hops = (2 if kind == "all_reduce" else 1) * (n - 1)
    walked = np.concatenate([[0.0], np.cumsum(np.tile(edges, -(-hops // n) + 1))])
    return float((walked[hops : hops + n] - walked[:n]).max())


def _tree(n: int, latencies: Latencies) -> float:
    up = np.zeros(n)
    child = np.arange(1, n)
    parent = (child - 1) // 2
    edge = np.concatenate([[0.0], latencies(child, parent)])
    for node in range(n - 1, 0, -1):
        above = (node - 1) // 2
        up[above] = max(up[above], up[node] + edge[node])
    down = np.zeros(n)
    down[0] = up[0]
    for node in range(1, n):
        down[node] = down[(node - 1) // 2] + edge[node]
    return float(down.max())
