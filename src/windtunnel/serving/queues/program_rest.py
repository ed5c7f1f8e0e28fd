"""Least rest of the program first: programs that are nearly over leave, which makes the mean latency small."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.serving.event_loop.twin.queue import QUEUES
from windtunnel.serving.queues.of_programs import OfPrograms

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.twin.instance import Instance
    from windtunnel.serving.event_loop.twin.request import Request


@QUEUES.register("program_rest")
class LeastProgramRest(OfPrograms):
    """By the seconds that the program still takes on this instance."""

    id = "program_rest"
    title = "Least rest of the whole program first"
    source = "Schrage 1968 (shortest remaining processing time), applied to programs"

    def key_on(self, one: Instance, q: Request) -> float:
        """Seconds of the rest of its program."""
        return self.rest_s(one, q)
