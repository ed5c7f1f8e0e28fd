"""Jobs that ask for most devices go first."""

from __future__ import annotations

from windtunnel.arrays import Floats
from windtunnel.clusters.jobs import Jobs
from windtunnel.clusters.policies.base import QueuePolicy


def _narrowness(jobs: Jobs) -> Floats:
    """Least for the job of most devices."""
    return -jobs.devices.astype(float)


WIDEST_FIRST = QueuePolicy(name="Widest job first", source="a test of plug-ins", key=_narrowness)
