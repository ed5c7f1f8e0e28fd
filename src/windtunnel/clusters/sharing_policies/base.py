"""What a policy of shared devices reads and answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from windtunnel.clusters.jobs import Jobs
from windtunnel.clusters.scheduling_policy import SchedulingPolicy
from windtunnel.registry import Registry

Nodes = tuple[tuple[int, int], ...]
"""Node and devices on it."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a job runs from now on, and how fast."""

    nodes: Nodes
    speed: float = 1.0
    """Work a second; 1 alone on its devices."""
    share: float = 1.0
    """Of its devices, where others are on them too: the shares of a device's jobs make one."""
    group: tuple[int, ...] = ()
    """Jobs that are started together: all start anew where one comes or leaves. Empty: the job alone."""
    look_at_s: float = 0.0
    """Work left at which the policy wants to decide again."""
    overhead_s: float | None = None
    """Seconds without progress where it starts anew; None: the job's own."""


@dataclass(slots=True)
class Present:
    """A job in the room."""

    number: int
    devices: int
    left_s: float
    """Work left, in seconds alone on its devices."""
    held_s: float = 0.0
    """Seconds on devices so far."""
    on: Placed | None = None
    """Where it runs."""


@dataclass(frozen=True, slots=True)
class Floor:
    """The room at a decision."""

    now: float
    capacity: tuple[int, ...]
    """Devices of each node."""
    jobs: list[Present]
    """In the order of submission."""

    @property
    def devices(self) -> int:
        """Devices of all nodes."""
        return sum(self.capacity)


Decide = Callable[[Floor], Mapping[int, Placed]]
"""Number of each job that is to run → where. Jobs that run and are not named stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingPolicy(SchedulingPolicy):
    """A policy that decides at every arrival and end, or once a round."""

    prepare: Callable[[Jobs, Mapping[str, Any], int], Decide]
    """From jobs, knobs and seed.

    Raises:
        BadInput: the trace lacks what the policy needs.
    """

    FUNCTIONS: ClassVar[dict[str, tuple[str, ...]]] = {"prepare": ("jobs", "knobs", "seed")}


SHARING_POLICIES: Registry[SharingPolicy] = Registry(
    "cluster_sharing_policies", package="windtunnel.clusters.sharing_policies", noun="policy"
)


def consolidated(devices: int, room: list[int], capacity: tuple[int, ...]) -> Nodes:
    """The fewest nodes that can hold a job: the fullest one with room for it, or whole nodes; empty without room."""
    largest = max(capacity)
    whole, rest = divmod(devices, largest) if devices > largest else (0, devices)
    nodes = [n for n, free in enumerate(room) if free == largest == capacity[n]][:whole]
    if len(nodes) < whole:
        return ()
    fitting = [(free, n) for n, free in enumerate(room) if free >= rest and n not in nodes] if rest else []
    if rest and not fitting:
        return ()
    return (*((n, largest) for n in nodes), *(((min(fitting)[1], rest),) if rest else ()))


def take(room: list[int], nodes: Nodes) -> None:
    """Take a job's devices from the room."""
    for node, uses in nodes:
        room[node] -= uses
