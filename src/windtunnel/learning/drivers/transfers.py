"""Messages between workers and their server on the clock: when each of them ends.

The driver starts transfers and asks when the next one ends. An end may move while others start and finish, since links
are shared; so it is asked for anew at every event and never kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf
from typing import Literal, Protocol

import numpy as np

from windtunnel.arrays import Floats

Direction = Literal["up", "down"]
"""up: from a worker to the server; down: from the server to a worker."""


class Transfers(Protocol):
    """Links between workers and their server. Times never go back from call to call."""

    def start(self, key: int, worker: int, nbytes: float, direction: Direction, now_s: float) -> None:
        """A transfer of `nbytes` begins now; `key` names it and is not in use."""

    def next_end_s(self) -> float:
        """When the next transfer ends if nothing else starts before; infinity where none is on its way."""

    def finish(self, now_s: float) -> list[int]:
        """Keys of all transfers that have ended by now, ascending; they are forgotten."""

    def cancel(self, key: int, now_s: float) -> None:
        """A transfer is given up; what it held is free again. Does nothing where it has ended."""


@dataclass(slots=True)
class IndependentLinks:
    """Each worker has a link of its own, and links never meet: latency, then bytes over the link's rate."""

    down_bytes_per_s: Floats | float = inf
    """One rate, or one of each worker, shape (workers,)."""
    up_bytes_per_s: Floats | float = inf
    latency_s: Floats | float = 0.0
    """One way; one number, or one of each worker, shape (workers,)."""
    _ends: list[tuple[float, int]] = field(default_factory=list)
    _on_way: set[int] = field(default_factory=set)

    @property
    def instant(self) -> bool:
        """Whether messages take no time."""
        return all(np.all(np.isinf(rate)) for rate in (self.down_bytes_per_s, self.up_bytes_per_s)) and not np.any(
            self.latency_s
        )

    def start(self, key: int, worker: int, nbytes: float, direction: Direction, now_s: float) -> None:
        """See `Transfers.start`."""
        rate = _of(self.up_bytes_per_s if direction == "up" else self.down_bytes_per_s, worker)
        self._on_way.add(key)
        heappush(self._ends, (now_s + _of(self.latency_s, worker) + nbytes / rate, key))

    def next_end_s(self) -> float:
        """See `Transfers.next_end_s`."""
        while self._ends and self._ends[0][1] not in self._on_way:
            heappop(self._ends)
        return self._ends[0][0] if self._ends else inf

    def finish(self, now_s: float) -> list[int]:
        """See `Transfers.finish`."""
        out = []
        while self.next_end_s() <= now_s:
            key = heappop(self._ends)[1]
            self._on_way.discard(key)
            out.append(key)
        return sorted(out)

    def cancel(self, key: int, now_s: float) -> None:
        """See `Transfers.cancel`."""
        del now_s
        self._on_way.discard(key)


def _of(values: Floats | float, worker: int) -> float:
    return values if isinstance(values, float | int) else float(values[worker])
