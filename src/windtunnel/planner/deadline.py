"""When a search or its explanation ends with what it has."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

GRACE_S = 1.5
"""Seconds that a search without any plan goes on beyond its deadline."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """A time on a clock: of the wall where a user sets a limit, of the processor where the planner sets its own."""

    clock: Callable[[], float]
    at: float = math.inf

    @classmethod
    def never(cls) -> Deadline:
        """No end."""
        return cls(time.perf_counter)

    @property
    def passed(self) -> bool:
        """Whether it is later."""
        return self.clock() > self.at

    @property
    def left_s(self) -> float:
        """Seconds until then."""
        return self.at - self.clock()


__all__ = ["GRACE_S", "Deadline"]
