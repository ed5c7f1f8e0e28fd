"""What a policy of queues declares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from windtunnel.arrays import Floats
from windtunnel.clusters.event_loop.records import ATTAINED, RANKED, SKIP, STATIC
from windtunnel.clusters.event_loop.reference import Chooser
from windtunnel.clusters.jobs import Jobs
from windtunnel.clusters.knobs import Knobs
from windtunnel.clusters.scheduling_policy import SchedulingPolicy
from windtunnel.registry import Registry

PRIORITY_S = 1e10
"""Distance of two priorities in a key of RANKED: more seconds than any trace has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePolicy(SchedulingPolicy):
    """A policy of the event loop: it decides at every arrival and end."""

    kind: int = STATIC
    """What orders the queue (`event_loop/records.py`)."""
    key: Callable[[Jobs], Floats] | None = None
    """A number of each job, the least first; jobs of one number keep the order of their submission, as all do where it
    is None. Only STATIC and RANKED order by it."""
    preemptive: bool = False
    blocking: int = SKIP
    limits: Callable[[Jobs, Knobs], Floats] | None = None
    """Device-seconds at which a job falls to the next level."""
    chooser: Callable[[Jobs, int], Chooser] | None = None
    """Of policies in Python: from the jobs and the devices of the room."""

    FUNCTIONS: ClassVar[dict[str, tuple[str, ...]]] = {
        "key": ("jobs",),
        "limits": ("jobs", "knobs"),
        "chooser": ("jobs", "devices"),
    }

    def contradiction(self) -> str:
        """A key or limits that the order does not read, or an order without what it reads."""
        if self.key is not None and self.kind not in (STATIC, RANKED):
            return "`key` is read by kinds STATIC and RANKED alone"
        if self.key is None and self.kind == RANKED:
            return "kind RANKED needs a `key`"
        if (self.limits is None) is (self.kind == ATTAINED):
            return "`limits` belong to kind ATTAINED, which needs them"
        return ""


POLICIES: Registry[QueuePolicy] = Registry("cluster_policies", package="windtunnel.clusters.policies", noun="policy")
