"""Shortest remaining time first: a shorter queued request takes the place of the longest in the batch.

A request gives way while less than a share of its predicted answer is made: those that are nearly done keep their
cache (Shahout et al. 2025 limit preemption so, since what was computed is lost or has to be copied).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.serving.event_loop.twin.queue import QUEUES
from windtunnel.serving.queues.sjf import ShortestJobFirst
from windtunnel.techniques.base import Knob

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.twin.instance import Instance
    from windtunnel.serving.event_loop.twin.request import Request


@QUEUES.register("srtf", "trail")
class ShortestRemainingTimeFirst(ShortestJobFirst):
    """The least predicted rest of an answer first."""

    id = "srtf"
    title = "Least predicted rest first, with preemption"
    source = "Shahout et al. 2025, Don't stop me now: embedding based scheduling for LLMs (TRAIL)"
    knobs = {
        **ShortestJobFirst.knobs,
        "until": Knob(0.8, 0.0, 1.0, "share of its predicted answer after which a request keeps its place"),
    }

    def key(self, q: Request) -> float:
        """Its predicted rest; at least one token."""
        return max(self.predictor.answer(q) - q.made, 1.0)

    def victim(self, one: Instance) -> Request:
        """The one with the largest rest."""
        return max(one.admitted, key=self.rank)

    def yields(self, one: Instance) -> Request | None:
        """The one with the largest rest, where it is larger than that of the next queued one and no place is free."""
        q = self.next(one)
        if q is None or one.running < one.limits.max_seqs:
            return None
        until = self.context.options.get("until", 0.8)
        movable = [x for x in one.admitted if x.made and x.made < until * self.predictor.answer(x)]
        if not movable:
            return None
        worst = max(movable, key=self.rank)
        return worst if self.key(worst) > self.key(q) else None
