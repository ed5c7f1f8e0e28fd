"""Highest response ratio next: (waited + service) / service, so that nobody starves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.serving.event_loop.twin.queue import QUEUES
from windtunnel.serving.queues.resorted import Sorted

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.twin.instance import Instance
    from windtunnel.serving.event_loop.twin.request import Request


@QUEUES.register("hrrn")
class HighestResponseRatioNext(Sorted):
    """Service is taken for the prompt's tokens, as the cost of a first token."""

    id = "hrrn"
    title = "Highest response ratio next"
    source = "SGLang managers/schedule_policy.py, hrrn; Brinch Hansen 1971"

    def ordered(self, one: Instance, line: list[Request]) -> list[Request]:
        """By waited seconds over prompt tokens, the highest first."""
        return sorted(line, key=lambda q: (-(one.now - q.arrival) / q.input, q.arrival, q.index))
