"""Uploads and downloads of an arrival-driven run as flows that share what their links meet in, events as they come.

All workers have links of one rate and meet in one port (a server's, a base station's), each direction on its own. So
every flow of a direction has the same rate at any time, min(link, port over flows), and a flow ends when the bytes that
each flow has received since its start reach its own: no flow is looked at but the next to end.

The same times as `engine.simulate_flows` gives when all flows are known beforehand.
Source: processor sharing by attained service, Kleinrock 1976, Queueing Systems II, section 4.4.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf

from windtunnel.learning.drivers.transfers import Direction
from windtunnel.learning.timing.links import Link

_SAME = 1e-12
"""Relative distance of two times that are one event but for rounding."""


@dataclass(slots=True)
class _Shared:
    """Flows of one direction."""

    link_bytes_per_s: float
    port_bytes_per_s: float
    latency_s: float
    now_s: float = 0.0
    received: float = 0.0
    """Bytes that a flow has received which was there all the time."""
    ends: list[tuple[float, int]] = field(default_factory=list)
    """(value of `received` at which its last byte leaves, key)."""
    moving: set[int] = field(default_factory=set)
    arrivals: list[tuple[float, int]] = field(default_factory=list)
    """(time, key) of flows whose last byte is on its way."""
    late: set[int] = field(default_factory=set)

    @property
    def rate(self) -> float:
        """Bytes/s of each flow."""
        return min(self.link_bytes_per_s, self.port_bytes_per_s / max(len(self.moving), 1))

    def start(self, key: int, nbytes: float, now_s: float) -> None:
        """A flow begins."""
        self.advance(now_s)
        self.moving.add(key)
        if self.rate == inf:
            self._sent(key, now_s)
            return
        if len(self.moving) == 1:
            self.received = 0.0
        heappush(self.ends, (self.received + nbytes, key))

    def advance(self, now_s: float) -> None:
        """Let flows move until a time."""
        while (end := self.next_sent_s()) <= now_s * (1.0 + _SAME):
            target, key = heappop(self.ends)
            self.received, self.now_s = target, end
            self._sent(key, end)
        if self.moving:
            self.received += self.rate * (now_s - self.now_s)
        self.now_s = now_s

    def next_sent_s(self) -> float:
        """When the next last byte leaves."""
        while self.ends and self.ends[0][1] not in self.moving:
            heappop(self.ends)
        return self.now_s + max(self.ends[0][0] - self.received, 0.0) / self.rate if self.ends else inf

    def next_arrival_s(self) -> float:
        """When the next flow ends for its receiver."""
        while self.arrivals and self.arrivals[0][1] not in self.late:
            heappop(self.arrivals)
        first = self.arrivals[0][0] if self.arrivals else inf
        return min(first, self.next_sent_s() + self.latency_s)

    def arrived(self, now_s: float) -> list[int]:
        """Keys of flows that have ended for their receivers by now."""
        self.advance(now_s)
        out = []
        while self.arrivals and self.arrivals[0][0] <= now_s * (1.0 + _SAME):
            _, key = heappop(self.arrivals)
            if key in self.late:
                self.late.discard(key)
                out.append(key)
        return out

    def drop(self, key: int, now_s: float) -> None:
        """A flow is given up."""
        if key in self.moving:
            self.advance(now_s)
        self.moving.discard(key)
        self.late.discard(key)

    def _sent(self, key: int, at_s: float) -> None:
        self.moving.discard(key)
        self.late.add(key)
        heappush(self.arrivals, (at_s + self.latency_s, key))


class ContendedLinks:
    """`Transfers` over links that meet.

    Example: `ContendedLinks(link_of(spec.link))` in an `ArrivalSetting`.
    """

    def __init__(self, link: Link) -> None:
        """Links of all workers are `link`; what they meet in is its `shared_bytes_per_s`, in each direction."""
        self._by: dict[Direction, _Shared] = {
            "up": _Shared(link.up_bytes_per_s, link.shared_bytes_per_s, link.latency_s),
            "down": _Shared(link.down_bytes_per_s, link.shared_bytes_per_s, link.latency_s),
        }
        self._of: dict[int, _Shared] = {}

    def start(self, key: int, worker: int, nbytes: float, direction: Direction, now_s: float) -> None:
        """See `Transfers.start`; a worker has one transfer a direction at a time."""
        del worker
        self._of[key] = self._by[direction]
        self._of[key].start(key, nbytes, now_s)

    def next_end_s(self) -> float:
        """See `Transfers.next_end_s`."""
        return min(shared.next_arrival_s() for shared in self._by.values())

    def finish(self, now_s: float) -> list[int]:
        """See `Transfers.finish`."""
        out = [key for shared in self._by.values() for key in shared.arrived(now_s)]
        for key in out:
            del self._of[key]
        return sorted(out)

    def cancel(self, key: int, now_s: float) -> None:
        """See `Transfers.cancel`."""
        shared = self._of.pop(key, None)
        if shared is not None:
            shared.drop(key, now_s)
