"""What `polca.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.errors import BadInput, Problem
from windtunnel.specs.jobs import JobsSpec, PowerSpec


def jobs_section(jobs: JobsSpec, knobs: dict[str, Any]) -> JobsSpec:
    """Feeds with the two thresholds. Rows and a limit that the scenario states stay."""
    if knobs["second"] < knobs["first"]:
        rule = f"must not be below first = {knobs['first']:g}"
        raise BadInput(Problem("techniques.polca.second", rule, knobs["second"]))
    thresholds = {"first": knobs["first"], "second": knobs["second"], "caps": True}
    if jobs.power is None:
        own = PowerSpec(oversubscribed=knobs["oversubscribed"], **thresholds)
    else:
        own = jobs.power.model_copy(update=thresholds)
    return jobs.model_copy(update={"power": own})
