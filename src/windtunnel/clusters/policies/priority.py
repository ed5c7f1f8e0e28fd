"""Highest priority first; only jobs of a lower priority are preempted, the lowest and youngest of them first.

Equal ones wait in the order of their submission. As Slurm does: jobs take nodes that idle if they can; where they
cannot, candidates are taken off one by one until the job fits, and those that hold none of its nodes stay. A job that
starts again after a failure so keeps its own sound nodes, which idle then, and preempts only for what is missing.
"""

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.clusters.event_loop.records import RANKED
from windtunnel.clusters.jobs import Jobs
from windtunnel.clusters.policies.base import POLICIES, PRIORITY_S, QueuePolicy


def _ranks(jobs: Jobs) -> Floats:
    levels = np.zeros(len(jobs)) if jobs.priority is None else jobs.priority
    return -levels * PRIORITY_S


POLICIES.add(
    "priority",
    QueuePolicy(
        name="Highest priority first",
        source="Slurm, PreemptMode=REQUEUE, preempt_youngest_first; Kokolis et al. 2024 (arXiv 2410.21680), section 2",
        kind=RANKED,
        key=_ranks,
        preemptive=True,
    ),
)
