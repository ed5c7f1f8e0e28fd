"""What a policy of tasks reads and answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from windtunnel.clusters.scheduling_policy import SchedulingPolicy
from windtunnel.registry import Registry


@dataclass(slots=True)
class Tasks:
    """A job in the room: tasks of equal length, each of one device, which need not run at once."""

    number: int
    user: str
    submit_s: float
    size_s: float
    """Device-seconds that the scheduler expects of the whole job."""
    running: int = 0
    had_s: float = 0.0
    """Device-seconds of tasks that were started."""
    started_at: int = 0
    """Number of the start of its last task, among all starts."""


class Order(Protocol):
    """A policy at work."""

    def arrive(self, job: Tasks, now: float) -> None:
        """A job has come."""

    def key(self, job: Tasks, ready: Mapping[int, Tasks]) -> tuple[float, ...]:
        """What orders jobs with tasks that wait: the least is next."""


@dataclass(slots=True)
class ByKey:
    """An order that remembers nothing."""

    of: Callable[[Tasks], tuple[float, ...]]

    def arrive(self, job: Tasks, now: float) -> None:
        """Nothing to remember."""

    def key(self, job: Tasks, ready: Mapping[int, Tasks]) -> tuple[float, ...]:
        """The job's own."""
        return self.of(job)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPolicy(SchedulingPolicy):
    """A policy that gives every device that becomes idle to a job, one task at a time."""

    order: Callable[[Mapping[str, Any], int], Order]
    """From knobs and the devices of the room."""
    knobs: Mapping[str, Any] = field(default_factory=dict)
    """Name → default. `part_s`: longest task, longer ones are split before they start; `slice_s`: a task leaves its
    device after that time and waits again."""

    FUNCTIONS: ClassVar[dict[str, tuple[str, ...]]] = {"order": ("knobs", "devices")}


TASK_POLICIES: Registry[TaskPolicy] = Registry(
    "cluster_task_policies", package="windtunnel.clusters.task_policies", noun="policy"
)
