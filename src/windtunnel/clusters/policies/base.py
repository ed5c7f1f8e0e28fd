"""What a policy states, and how its knobs are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from windtunnel.arrays import Floats
from windtunnel.clusters.event_loop.records import SKIP, STATIC
from windtunnel.clusters.event_loop.reference import Chooser
from windtunnel.clusters.jobs import Jobs
from windtunnel.clusters.knobs import Knobs, read_knobs
from windtunnel.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePolicy:
    """A policy of the event loop: it decides at every arrival and end."""

    name: str
    source: str
    kind: int = STATIC
    """What orders the queue (`event_loop/records.py`)."""
    key: Literal["submit_s", "estimate_s", "deadline_s", "priority"] = "submit_s"
    """Column that STATIC and RANKED order by, and that breaks ties of levels."""
    preemptive: bool = False
    blocking: int = SKIP
    knobs: Knobs = field(default_factory=dict)
    """Name → default."""
    limits: Callable[[Jobs, Knobs], Floats] | None = None
    """Device-seconds at which a job falls to the next level."""
    chooser: Callable[[Jobs, int], Chooser] | None = None
    """Of policies in Python: from the jobs and the devices of the room."""

    def read(self, given: Knobs, field: str) -> Knobs:
        """Knobs with their defaults.

        Raises:
            BadInput: an unknown knob, or one with another kind of value.
        """
        return read_knobs(self.knobs, given, field)


POLICIES: Registry[QueuePolicy] = Registry("cluster_policies", package="windtunnel.clusters.policies", noun="policy")
