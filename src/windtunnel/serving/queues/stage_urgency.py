"""Urgency of a stage: each call gets a share of what is left until its program's deadline, by its share of the rest.

A call's budget is what is left of the deadline when it comes, times its own seconds over those of the rest of its
program. Urgent is what has least of its budget left, less the seconds that it takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.serving.event_loop.twin.queue import QUEUES
from windtunnel.serving.queues.of_programs import OfPrograms

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.twin.instance import Instance
    from windtunnel.serving.event_loop.twin.request import Request


@QUEUES.register("stage_urgency")
class StageUrgency(OfPrograms):
    """While calls wait all budgets shrink alike, so that the order in which they came stays."""

    id = "stage_urgency"
    title = "Most urgent stage first: its share of the program's deadline, less what it takes"
    source = "Peng et al. 2025, HexGen-Flow (local priority queue; github Relaxed-System-Lab/Hexgen-Flow, request.py)"

    def key_on(self, one: Instance, q: Request) -> float:
        """When its budget ends, less its own seconds; without a deadline when it came."""
        due = self.due(q)
        if due == float("inf"):
            return q.arrival
        own_s = self.seconds(one, q.input, q.output)
        return q.arrival + (due - q.arrival) * own_s / max(self.rest_s(one, q), own_s) - own_s
