"""A worker's link as the clock reads it: rates in bytes/s, latencies in seconds, sites, connections."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt

from windtunnel.specs.learning import WorkerLinkSpec

SEGMENT_BYTES = 1460.0
"""Of a TCP segment over Ethernet: 1500 less 40 of headers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Workers that share one way out, and have fast links among themselves."""

    workers: int
    bytes_per_s: float
    """Of a worker's link to others of its site, one direction."""
    latency_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The way out of a worker (of a site, where there are sites), one direction each."""

    up_bytes_per_s: float
    """What one message can send, connections and loss included."""
    down_bytes_per_s: float
    latency_s: float = 0.0
    """One way."""
    shared_bytes_per_s: float = inf
    """What all workers' links meet in."""
    latency_spread: float = 0.0
    """Standard deviation of the logarithm of latencies between pairs of workers."""
    joules_per_byte: float = 0.0
    site: Site | None = None
    algorithm: str = "fastest"
    """Of collectives: ring, tree, hierarchical, or the fastest of them for each message."""


NO_TIME = Link(up_bytes_per_s=inf, down_bytes_per_s=inf)
"""Over which messages have bytes but take no time."""


def connection_bytes_per_s(
    latency_s: float, window_bytes: float | None, loss: float, segment_bytes: float = SEGMENT_BYTES
) -> float:
    """Bytes/s of one TCP connection: a window a round trip, and at most what its losses allow; infinite without either.

    Source: Mathis, Semke, Mahdavi and Ott 1997, The macroscopic behavior of the TCP congestion avoidance algorithm,
    equation 3 with C = √(3/2).
    """
    round_trip_s = 2.0 * latency_s
    if not round_trip_s:
        return inf
    by_window = inf if window_bytes is None else window_bytes / round_trip_s
    by_loss = inf if not loss else segment_bytes * sqrt(1.5) / (round_trip_s * sqrt(loss))
    return min(by_window, by_loss)


def link_of(spec: WorkerLinkSpec) -> Link:
    """A link from what a scenario says of it."""
    connections = spec.connections * connection_bytes_per_s(spec.latency, spec.window_bytes, spec.loss)
    return Link(
        up_bytes_per_s=min(spec.bandwidth if spec.uplink is None else spec.uplink, connections),
        down_bytes_per_s=min(spec.bandwidth, connections),
        latency_s=spec.latency,
        shared_bytes_per_s=inf if spec.shared is None else spec.shared,
        latency_spread=spec.latency_spread,
        joules_per_byte=spec.joules_per_byte,
        site=None
        if spec.site is None
        else Site(workers=spec.site.workers, bytes_per_s=spec.site.bandwidth, latency_s=spec.site.latency),
        algorithm=spec.algorithm,
    )
