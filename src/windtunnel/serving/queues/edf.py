"""Earliest deadline first: arrival plus the tenant's objective of TTFT."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.serving.event_loop.twin.queue import QUEUES
from windtunnel.serving.queues.static_key import Keyed

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.twin.request import Request


@QUEUES.register("edf")
class EarliestDeadlineFirst(Keyed):
    """By deadline; without objectives in order of arrival."""

    id = "edf"
    title = "Earliest deadline first"
    source = "Liu and Layland 1973; deadlines of first tokens as in Patke et al. 2024, Queue Management (QLM)"

    def key(self, q: Request) -> float:
        """When its first token is due."""
        limit = self.context.ttft_s[q.tenant]
        return q.arrival + limit if limit != float("inf") else float("inf")
