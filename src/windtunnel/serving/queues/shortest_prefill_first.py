"""Shortest prompt first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.serving.event_loop.twin.queue import QUEUES
from windtunnel.serving.queues.static_key import Keyed

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.twin.request import Request


@QUEUES.register("shortest_prefill_first", "shortest-prefill-first")
class ShortestPrefillFirst(Keyed):
    """By prompt, the shortest first."""

    id = "shortest_prefill_first"
    title = "Shortest prompt first"
    source = "SGLang managers/schedule_policy.py, shortest-prefill-first"

    def key(self, q: Request) -> float:
        """Its prompt."""
        return float(q.input)
