"""Longest answer first: what the longest answer allowed says, before anybody knows how long it becomes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.serving.event_loop.twin.queue import QUEUES
from windtunnel.serving.queues.static_key import Keyed

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.twin.request import Request


@QUEUES.register("lof")
class Lof(Keyed):
    """By answer, the longest first. `max_new_tokens` is taken for the answer's length."""

    id = "lof"
    title = "Longest answer first"
    source = "SGLang managers/schedule_policy.py, lof"

    def key(self, q: Request) -> float:
        """Its answer, negated."""
        return -float(q.output)
