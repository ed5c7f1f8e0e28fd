"""The graph of requests and joints during a run of the reference loop (`kernels/graph.py` does the same, jitted)."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from windtunnel.serving.event_loop.request_graph import Dependencies

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.twin.request import Request

OPEN, QUEUED, IN_SERVICE, OVER, CANCELLED = range(5)
"""States of a joint."""


class CallCanceller(Protocol):
    """What takes requests back that are on an instance."""

    def cancel(self, q: Request, now: float) -> bool:
        """Take a request back; returns whether it is over at once: else it is with the step under way."""
        ...


class Waits:
    """What is still waited for, which tools serve, and what was taken back.

    Args:
        after: the graph.
        every: all requests by number.
        later: the heap of events to come, as (seconds, number). A joint in service has the event `first_event` + its
            number.
        first_event: number above those of all other events.
        calls: takes back requests that are on an instance.
    """

    def __init__(
        self,
        after: Dependencies,
        every: Sequence[Request],
        later: list[tuple[float, int]],
        first_event: int,
        calls: CallCanceller,
    ) -> None:
        self.after, self.all, self.later, self.first_event, self.calls = after, every, later, first_event, calls
        self.count, joints = len(after.task), after.joints
        start, children = after.start.tolist(), after.children.tolist()
        self.children = [children[start[i] : start[i + 1]] for i in range(after.nodes)]
        needed = after.needed()
        self.pending: list[int] = needed.tolist()
        """Parents that must still be over, by node."""
        self.slack: list[int] = (after.parents - needed).tolist()
        """Parents that may still be cancelled, by node."""
        tasks = after.tasks_of_nodes()
        self.task: list[int] = tasks.tolist()
        self.left = [0] * (int(tasks.max(initial=-1)) + 1)
        """Nodes of each task that are not over."""
        for t in self.task:
            self.left[t] += 1
        self.ended_tasks = 0
        """Tasks that were over since the loop last asked."""
        self.state = [OPEN] * joints
        self.seconds: list[float] = [0.0] * joints if after.seconds is None else after.seconds.tolist()
        self.server: list[int] = [-1] * joints if after.server is None else after.server.tolist()
        self.slots: list[int] = [] if after.servers is None else after.servers.tolist()
        """Free slots by class of tool servers."""
        self.lines: list[list[tuple[float, int]]] = [[] for _ in self.slots]
        """Joints that wait for a slot, as (seconds at which each was ready, number)."""
        after.over_s.fill(float("nan"))

    def ended(self, q: Request, now: float) -> None:
        """A request is over: send what waited for it alone, begin joints."""
        i = (q.prompt or q).index
        if q.cancelled:
            self._count_over(i)
        else:
            self._follow(i, now)

    def joint_event(self, number: int, now: float) -> None:
        """A joint's service is over, unless it was cancelled."""
        j = number - self.first_event
        if self.state[j] == IN_SERVICE:
            self._free_slot(j, now)
            self._follow(self.count + j, now)

    def _follow(self, node: int, now: float) -> None:
        rest = [node]
        """Nodes that are over; −1 − n: node n was cancelled."""
        while rest:
            n = rest.pop()
            if n < 0:
                for c in self.children[-1 - n]:
                    self.slack[c] -= 1
                    if self.slack[c] < 0 < self.pending[c]:
                        self._cancel(c, now, rest)
                continue
            if n >= self.count:
                self._joint_over(n - self.count, now, rest)
            self._count_over(n)
            for c in self.children[n]:
                self.pending[c] -= 1
                if self.pending[c]:
                    continue
                if c >= self.count:
                    self._joint_ready(c - self.count, now, rest)
                elif not self.all[c].over:
                    heapq.heappush(self.later, (now + self.all[c].delay, c))

    def _joint_over(self, j: int, now: float, rest: list[int]) -> None:
        self.state[j] = OVER
        self.after.over_s[j] = now
        if self.after.cancels is not None:
            for i in range(*self.after.cancels[j].tolist()):
                self._cancel(i, now, rest)
        if self.after.cancels_joints is not None:
            for other in range(*self.after.cancels_joints[j].tolist()):
                self._cancel(self.count + other, now, rest)

    def _joint_ready(self, j: int, now: float, rest: list[int]) -> None:
        if self.state[j] != OPEN:
            return
        own = self.server[j]
        if own < 0 and self.seconds[j] == 0.0:
            rest.append(self.count + j)
        elif own < 0:
            self._serve(j, now)
        elif self.slots[own] > 0:
            self.slots[own] -= 1
            self._serve(j, now)
        else:
            self.state[j] = QUEUED
            heapq.heappush(self.lines[own], (now, j))

    def _serve(self, j: int, now: float) -> None:
        self.state[j] = IN_SERVICE
        heapq.heappush(self.later, (now + self.seconds[j], self.first_event + j))

    def _free_slot(self, j: int, now: float) -> None:
        own = self.server[j]
        if own < 0:
            return
        self.slots[own] += 1
        while self.lines[own]:
            _, following = heapq.heappop(self.lines[own])
            if self.state[following] == QUEUED:
                self.slots[own] -= 1
                self._serve(following, now)
                return

    def _cancel(self, n: int, now: float, rest: list[int]) -> None:
        if n >= self.count:
            j = n - self.count
            was = self.state[j]
            if was in (OVER, CANCELLED):
                return
            self.state[j] = CANCELLED
            if was == IN_SERVICE:
                self._free_slot(j, now)
            self._count_over(n)
            rest.append(-1 - n)
            return
        q = self.all[n]
        if q.over or q.cancel:
            return
        q.cancel = True
        rest.append(-1 - n)
        if not q.sent:
            q.over = q.cancelled = True
            self._count_over(n)
        elif self.calls.cancel(q, now):
            self._count_over(n)

    def _count_over(self, n: int) -> None:
        self.left[self.task[n]] -= 1
        self.ended_tasks += not self.left[self.task[n]]
