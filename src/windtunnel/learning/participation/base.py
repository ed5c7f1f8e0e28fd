"""What a rule of participation is to drivers."""

from __future__ import annotations

from collections.abc import Set
from typing import Protocol

from windtunnel.arrays import Ints
from windtunnel.learning.job import Job
from windtunnel.learning.randomness import Draws


class Participation(Protocol):
    """Which workers are active at a time.

    A rule is also `compose.Participants`: called with (job, round) it gives the workers of a lock-step round, and
    they are those that the arrival-driven driver chooses for its round of the same number where everyone is idle.
    """

    def width(self, workers: int) -> int:
        """Workers whose results a round is made of; what progress is counted in."""

    def slots(self, workers: int) -> int:
        """Workers that are active at a time: more than `width` where more are asked than waited for."""

    def choose(self, idle: Set[int], workers: int, count: int, choice: int, draws: Draws) -> list[int]:
        """At most `count` of the idle workers, ascending.

        Args:
            idle: Numbers of the workers that can start.
            workers: Workers in all.
            count: Free slots, 1 or more.
            choice: Choices made before, the key of the draw.
            draws: Random numbers of the run.
        """

    def __call__(self, job: Job, round_number: int) -> Ints:
        """Workers of a lock-step round, ascending."""
