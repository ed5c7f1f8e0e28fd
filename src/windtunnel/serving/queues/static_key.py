"""Orders by one number a request has when it comes: a heap an instance."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import TYPE_CHECKING

from windtunnel.serving.event_loop.twin.queue import Context, Queue

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.twin.instance import Instance
    from windtunnel.serving.event_loop.twin.request import Request

Entry = tuple[float, float, int, "Request"]


class Keyed(Queue):
    """The smallest key first; of equals, the one that came first. Override `key`."""

    def __init__(self, context: Context | None = None) -> None:
        super().__init__(context)
        self.heaps: dict[int, list[Entry]] = {}

    def begin(self, instances: Sequence[Instance]) -> None:
        """The run begins."""
        self.heaps = {one.index: [] for one in instances}

    def key(self, q: Request) -> float:
        """What requests are ordered by."""
        raise NotImplementedError

    def rank(self, q: Request) -> tuple[float, float, int]:
        """Key, arrival, number: no two are equal."""
        return self.key(q), q.arrival, q.index

    def arrive(self, one: Instance, q: Request) -> None:
        """A request comes to an instance."""
        heapq.heappush(self.heaps[one.index], (*self.rank(q), q))

    def put_back(self, one: Instance, q: Request) -> None:
        """A request was preempted."""
        self.arrive(one, q)

    def next(self, one: Instance) -> Request | None:
        """Who is served first."""
        heap = self.heaps[one.index]
        return heap[0][3] if heap else None

    def take(self, one: Instance, q: Request) -> None:
        """A request leaves the queue."""
        heap = self.heaps[one.index]
        if heap[0][3] is q:
            heapq.heappop(heap)
        else:
            heap[:] = [entry for entry in heap if entry[3] is not q]
            heapq.heapify(heap)

    def waiting(self, one: Instance) -> int:
        """Queued requests."""
        return len(self.heaps[one.index])
