"""All workers take part at all times."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from windtunnel.arrays import Ints
from windtunnel.learning.job import Job
from windtunnel.learning.randomness import Draws


@dataclass(frozen=True, slots=True)
class Everyone:
    """See `Participation`."""

    def width(self, workers: int) -> int:
        """All."""
        return workers

    def slots(self, workers: int) -> int:
        """All."""
        return workers

    def choose(self, idle: Set[int], workers: int, count: int, choice: int, draws: Draws) -> list[int]:
        """Every idle worker."""
        del workers, choice, draws
        return sorted(idle)[:count]

    def __call__(self, job: Job, round_number: int) -> Ints:
        """All."""
        del round_number
        return job.everyone
