"""What a policy of elastic jobs reads and answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from windtunnel.arrays import Floats, Ints
from windtunnel.clusters.scheduling_policy import SchedulingPolicy
from windtunnel.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Jobs in the room at a decision, in the order of their submission."""

    jobs: Ints
    """Their numbers, for policies that remember."""
    sizes: Ints
    """Numbers of devices that jobs can have, rising: the levels."""
    rate: Floats
    """Job × level: work a second; 0 where the job cannot have so many devices."""
    left_s: Floats
    """Work left."""
    due_s: Floats
    """Seconds to the deadline; infinite where a job has none."""
    devices: int
    """Of the room."""
    slot_s: float
    """Least seconds until the next decision."""
    level: Ints
    """What each job has now; −1: no devices."""
    age_s: Floats
    """Since its submission."""
    restarts: Floats
    """Changes of its devices since its first start."""
    overhead_s: Floats
    """Of a change."""

    def __len__(self) -> int:
        return len(self.jobs)


Levels = Ints
"""Level of each job, −1 for no devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticPolicy(SchedulingPolicy):
    """A policy that is asked whenever jobs come or end, or every slot."""

    start: Callable[[], Callable[[Running], Levels]]
    """A new run of it."""
    slot_s: float = 240.0
    """Least seconds between two decisions where `jobs.round_s` is absent (240: ElasticFlow's evaluation)."""
    periodic: bool = False
    """Whether it decides every slot, not only when jobs come or end."""

    FUNCTIONS: ClassVar[dict[str, tuple[str, ...]]] = {"start": ()}


ELASTIC_POLICIES: Registry[ElasticPolicy] = Registry(
    "cluster_elastic_policies", package="windtunnel.clusters.elastic_policies", noun="policy"
)
