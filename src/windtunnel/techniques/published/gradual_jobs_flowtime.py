"""Jobs are chains of operations whose sizes are revealed one by one: the shortest operation at hand runs first.

The scheduler knows of a job only what is left of the operation that it is at; an arrival, or an operation that turns
out long, preempts. With one operation a job this is SRTF; with one test of equal length and then the job it is within a
factor of two of the best that could be done with all sizes known.

What it costs: preemptions at ends of operations; jobs with a short operation before long ones run too early.

Source: Lindermayr et al. 2026, abstract.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.jobs import JobsSpec
from windtunnel.techniques.base import Technique


def _by_operation(jobs: JobsSpec, knobs: dict[str, Any]) -> JobsSpec:
    return jobs.model_copy(update={"policy": "operation-srpt"})


TECHNIQUE = Technique(
    id="gradual-jobs-flowtime",
    edits=(("jobs", "policy"),),
    saves="queue",
    jobs_section=_by_operation,
    resource="queue",
)
