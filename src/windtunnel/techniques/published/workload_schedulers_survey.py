"""The schedulers that a survey of operating systems, clusters and big data names, as policies of jobs on a cluster.

First come, first served; backfilling; round robin and Linux's fair scheduler, a slice at a time; fair shares of jobs
and of users; dominant resource fairness.

Source: Sliwko and Getov 2015.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.jobs import JobsSpec
from windtunnel.techniques.base import Knob, Technique

SCHEDULERS = ("fifo", "backfill", "round-robin", "cfs", "fair", "user-fair", "drf")


def _chosen(jobs: JobsSpec, knobs: dict[str, Any]) -> JobsSpec:
    return jobs.model_copy(update={"policy": knobs["scheduler"]})


TECHNIQUE = Technique(
    id="workload-schedulers-survey",
    knobs={"scheduler": Knob("backfill", doc="which of them", choices=SCHEDULERS)},
    edits=(("jobs", "policy"),),
    saves="queue",
    jobs_section=_chosen,
    resource="queue",
)
