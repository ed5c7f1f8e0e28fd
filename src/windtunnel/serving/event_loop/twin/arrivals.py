"""What the reference loop's next request is, and when: by the clock, in a closed loop, or after an answer."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from windtunnel.serving.event_loop.requests import Requests
from windtunnel.serving.event_loop.twin.request import Request
from windtunnel.serving.event_loop.twin.waits import CallCanceller, Waits


class Arrivals:
    """Requests that have yet to come.

    Args:
        requests: all of them, with their order and what they wait for.
        every: the same as objects of the loop, by index.
        concurrency: of a closed loop; 0: they come by the clock.
        calls: takes back requests that are on an instance.
    """

    def __init__(self, requests: Requests, every: Sequence[Request], concurrency: int, calls: CallCanceller) -> None:
        self.all, self.concurrency = every, concurrency
        self.order: list[int] = requests.order().tolist()
        self.sent = 0
        self.later: list[tuple[float, int]] = []
        """Events to come: a request by its number; further numbers are the handover's, then the joints', those below 0
        the control's."""
        self.first_joint = 4 * len(every)
        """Number of the first event of a joint."""
        own = requests.after
        self.waits = None if own is None else Waits(own, every, self.later, self.first_joint, calls)

    def begin(self) -> None:
        """The run begins."""
        if self.concurrency:
            for _ in range(self.concurrency):
                self.later += [(0.0, i) for i in self._next_heads()]
            heapq.heapify(self.later)

    @property
    def clocked_left(self) -> bool:
        """Whether requests are still to come by the clock."""
        return not self.concurrency and self.sent < len(self.order)

    def _clocked(self) -> float:
        if not self.clocked_left:
            return float("inf")
        return self.all[self.order[self.sent]].arrival

    def next_s(self) -> float:
        """When something comes next; infinity where nothing does."""
        return min(self._clocked(), self.later[0][0] if self.later else float("inf"))

    def pop(self) -> int:
        """What comes next."""
        if self.later and self.later[0][0] < self._clocked():
            return heapq.heappop(self.later)[1]
        self.sent += 1
        return self.order[self.sent - 1]

    def follow_up(self, q: Request, now: float) -> None:
        """What an answer brings on: calls that waited for it, the next turn, or the next request of a closed loop."""
        if self.waits is not None:
            self.waits.ended(q, now)
            self.tasks_ended(q.follow, q.delay, now)
        elif q.follow >= 0:
            heapq.heappush(self.later, (now + q.delay, q.follow))
        elif self.concurrency and self.sent < len(self.order):
            for i in self._next_heads():
                heapq.heappush(self.later, (now + q.delay, i))

    def tasks_ended(self, follow: int, delay: float, now: float) -> None:
        """What tasks that are over bring on: what follows the call that ended the first, or the next tasks.

        Args:
            follow: request that follows that call, or −1.
            delay: seconds before it.
            now: seconds at which they ended.
        """
        assert self.waits is not None
        ended, self.waits.ended_tasks = self.waits.ended_tasks, 0
        if ended and follow >= 0:
            heapq.heappush(self.later, (now + delay, follow))
            ended -= 1
        for _ in range(ended if self.concurrency else 0):
            for i in self._next_heads():
                heapq.heappush(self.later, (now, i))

    def _next_heads(self) -> list[int]:
        """Requests that a closed loop sends next: one, or all those that the next task begins with."""
        at, order, waits = self.sent, self.order, self.waits
        if at < len(order):
            self.sent += 1
        while waits and at < self.sent < len(order) and waits.task[order[self.sent]] == waits.task[order[at]]:
            self.sent += 1
        return [int(i) for i in order[at : self.sent]]
