"""What `uwfq.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.jobs import JobsSpec


def jobs_section(jobs: JobsSpec, knobs: dict[str, Any]) -> JobsSpec:
    return jobs.model_copy(update={"policy": {"uwfq": {"part_s": knobs["part_s"]}}})
