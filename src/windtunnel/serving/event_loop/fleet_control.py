"""Who brings instances up and down, or changes what they are, while the reference loop runs."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.reference import ReferenceLoop
    from windtunnel.serving.event_loop.twin.instance import Instance
    from windtunnel.serving.event_loop.twin.request import Request


class Control:
    """Hooks of the loop. Requests are sent to the instances `loop.entries`, which a hook may change at will."""

    loop: ReferenceLoop

    def begin(self, loop: ReferenceLoop) -> None:
        """The run begins."""
        self.loop = loop

    def file(self, number: int, at_s: float) -> None:
        """Have `event(number)` called at a time."""
        heapq.heappush(self.loop.later, (at_s, -1 - number))

    def event(self, number: int, now: float) -> list[int]:
        """What was filed is due; returns the instances that have new requests."""
        return []

    def takes(self, q: Request, now: float) -> bool:
        """Whether a request that comes can be sent to an instance now; what returns False keeps it."""
        return True

    def completed(self, one: Instance, now: float) -> None:
        """An iteration, or a run of decode steps, is over and answers that ended have left."""

    def busy(self) -> bool:
        """Whether anything but timers is still to come: requests on their way, queued or in a batch."""
        loop = self.loop
        if any(i >= 0 for _, i in loop.later) or loop.arrivals.clocked_left:
            return True
        return any(one.running or one.waiting for one in loop.instances)
