"""Earliest deadline of the program first: a late call of an old program goes before the first of a new one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.serving.event_loop.twin.queue import QUEUES
from windtunnel.serving.queues.of_programs import OfPrograms

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.twin.instance import Instance
    from windtunnel.serving.event_loop.twin.request import Request


@QUEUES.register("program_deadline")
class ProgramDeadline(OfPrograms):
    """By the program's begin and objective; without objectives by its begin."""

    id = "program_deadline"
    title = "Earliest deadline of the whole program first"
    source = "Liu and Layland 1973, applied to programs, as Luo et al. 2025 (Autellix) take programs as units"

    def key_on(self, one: Instance, q: Request) -> float:
        """When its program is due."""
        due = self.due(q)
        return due if due != float("inf") else self.begun[q.group]
