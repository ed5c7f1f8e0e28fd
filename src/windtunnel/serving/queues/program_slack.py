"""Least slack of the program first: what is left until its deadline, less what it still takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.serving.event_loop.twin.queue import QUEUES
from windtunnel.serving.queues.of_programs import OfPrograms

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.twin.instance import Instance
    from windtunnel.serving.event_loop.twin.request import Request


@QUEUES.register("program_slack")
class ProgramSlack(OfPrograms):
    """While calls wait all slacks shrink alike, so that an order by deadline less rest holds."""

    id = "program_slack"
    title = "Least slack of the whole program first"
    source = "Mok 1983 (least laxity first), applied to programs"

    def key_on(self, one: Instance, q: Request) -> float:
        """Deadline of its program, less the seconds that its rest takes here; without a deadline that rest alone."""
        due = self.due(q)
        begun = self.begun[q.group]
        return (due if due != float("inf") else begun) - self.rest_s(one, q)
