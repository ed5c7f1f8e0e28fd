"""What a placement states, and how its knobs are read."""

from __future__ import annotations

from dataclasses import dataclass, field

from windtunnel.clusters.knobs import Knobs, read_knobs
from windtunnel.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Which nodes are good enough for a job, and whether that changes while it waits."""

    name: str
    source: str
    kind: int
    """CONSOLIDATED, BEST_FIT or SPREAD of `event_loop/records.py`."""
    relaxed: int | None = None
    """The same of a job that has waited for the knob `wait_s`; None: nothing changes."""
    knobs: Knobs = field(default_factory=dict)
    """Name → default."""

    def read(self, given: Knobs, field: str) -> Knobs:
        """Knobs with their defaults.

        Raises:
            BadInput: an unknown knob, or one with another kind of value.
        """
        return read_knobs(self.knobs, given, field)


PLACEMENTS: Registry[Placement] = Registry("cluster_placements", package="windtunnel.clusters.placements")
