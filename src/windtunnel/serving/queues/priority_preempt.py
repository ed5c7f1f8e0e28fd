"""vLLM's priorities with preemption: the lowest class is preempted first, and for a queued request of a better class.

vLLM V0 preempts requests for queued ones; V1 only when running requests find no block (`for_waiting: false`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.serving.event_loop.twin.queue import QUEUES
from windtunnel.serving.queues.static_key import Keyed
from windtunnel.techniques.base import Knob

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.twin.instance import Instance
    from windtunnel.serving.event_loop.twin.request import Request


@QUEUES.register("priority_preempt")
class PriorityPreempt(Keyed):
    """By class, then in order of arrival."""

    id = "priority_preempt"
    title = "By class; lower classes give way"
    source = "vLLM core/scheduler.py, _schedule_priority_preemption; v1/core/sched/scheduler.py, preempted_req"
    knobs = {"for_waiting": Knob(True, doc="preempt requests for queued ones of a better class (V0)")}

    def key(self, q: Request) -> float:
        """Its class."""
        return float(q.priority)

    def victim(self, one: Instance) -> Request:
        """The last of the lowest class."""
        return max(one.admitted, key=self.rank)

    def yields(self, one: Instance) -> Request | None:
        """The last of the lowest class, where one of a better class waits for its place or its blocks."""
        if not self.context.options.get("for_waiting", True) or not one.admitted:
            return None
        q = self.next(one)
        if q is None:
            return None
        worst = max(one.admitted, key=self.rank)
        if worst.priority <= q.priority or room_for(one, q):
            return None
        return worst


def room_for(one: Instance, q: Request) -> bool:
    """Whether places and free blocks suffice for a request next to those that run."""
    if one.running >= one.limits.max_seqs:
        return False
    need = one.wanted(q) + one.extra(q) + (one.growth() if one.limits.mixed else 0)
    return not one.running or one.used + need + one.limits.watermark <= one.limits.blocks
