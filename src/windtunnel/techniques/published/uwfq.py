"""Jobs of several users run in the order in which a fluid system, fair between users, would end them.

Every user present has an equal share of the devices of the fluid system, and every job of a user an equal share of
theirs; who ends first there runs first here, with all devices that it can use. Tasks that run are not stopped, so that
long ones are split by their expected time before they start.

What it costs: estimates of run times, and a start of a task for each part. Where one user is alone, or tasks are short
and equal, nothing is left to gain over a fair share of jobs.

Source: arXiv 2510.15485, abstract.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.jobs import JobsSpec
from windtunnel.techniques.base import Knob, Technique


def _ordered(jobs: JobsSpec, knobs: dict[str, Any]) -> JobsSpec:
    return jobs.model_copy(update={"policy": {"uwfq": {"part_s": knobs["part_s"]}}})


TECHNIQUE = Technique(
    id="uwfq",
    knobs={"part_s": Knob(1.0, 1e-3, 1e6, "longest task in seconds: longer ones are split before they start")},
    edits=(("jobs", "policy"),),
    saves="queue",
    jobs_section=_ordered,
    resource="queue",
)
