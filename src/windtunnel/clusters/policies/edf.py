"""Earliest deadline first, with preemption; jobs without a deadline come last, in their order."""

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.clusters.jobs import Jobs
from windtunnel.clusters.policies.base import POLICIES, QueuePolicy
from windtunnel.errors import BadInput, Problem

_LAST = 1e15
"""Key of jobs without a deadline."""


def _deadlines(jobs: Jobs) -> Floats:
    if jobs.deadline_s is None:
        raise BadInput(Problem("jobs.policy", "needs deadlines, and the trace has none (column deadline_s)", "edf"))
    return np.where(np.isfinite(jobs.deadline_s), jobs.deadline_s, _LAST)


POLICIES.add(
    "edf",
    QueuePolicy(name="Earliest deadline first", source="Liu and Layland 1973", key=_deadlines, preemptive=True),
)
