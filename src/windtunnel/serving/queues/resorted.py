"""Orders that change with time or with what the cache holds: the queue is put in order once an event, when asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from windtunnel.serving.event_loop.twin.queue import Context, Queue

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.twin.instance import Instance
    from windtunnel.serving.event_loop.twin.request import Request


class Sorted(Queue):
    """Override `ordered`."""

    def __init__(self, context: Context | None = None) -> None:
        super().__init__(context)
        self.line: dict[int, dict[int, Request]] = {}
        self.first: dict[int, list[Request]] = {}
        self.asked: dict[int, float] = {}

    def begin(self, instances: Sequence[Instance]) -> None:
        """The run begins."""
        self.line = {one.index: {} for one in instances}
        self.first = {one.index: [] for one in instances}
        self.asked = {one.index: -1.0 for one in instances}

    def ordered(self, one: Instance, line: list[Request]) -> list[Request]:
        """The queue, the request that is served first in front."""
        raise NotImplementedError

    def arrive(self, one: Instance, q: Request) -> None:
        """A request comes to an instance."""
        self.line[one.index][q.index] = q
        self.asked[one.index] = -1.0

    def put_back(self, one: Instance, q: Request) -> None:
        """A request was preempted."""
        self.arrive(one, q)

    def next(self, one: Instance) -> Request | None:
        """Who is served first."""
        k = one.index
        if not self.line[k]:
            return None
        if self.asked[k] != one.now:
            self.first[k] = self.ordered(one, list(self.line[k].values()))[::-1]
            self.asked[k] = one.now
        return self.first[k][-1]

    def take(self, one: Instance, q: Request) -> None:
        """A request leaves the queue."""
        del self.line[one.index][q.index]
        if self.first[one.index] and self.first[one.index][-1] is q:
            self.first[one.index].pop()
        else:
            self.asked[one.index] = -1.0

    def waiting(self, one: Instance) -> int:
        """Queued requests."""
        return len(self.line[one.index])
