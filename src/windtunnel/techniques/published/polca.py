"""More servers under one feed than it could carry at once: clocks are locked when the row's power comes near its limit.

Jobs and fleets of low priority give way first, those of high priority next; both locks act late because they go out of
band, and a brake slows every server when the feed would fail. In `windtunnel cluster` it sets `jobs.power`: rows, their
limit and the manager's numbers; watts and speeds at each clock are simulated from the jobs' scenarios. Requests one by
one in a row alone: `power_row`.

What it costs: time of what is locked. Training, whose watts stay high for a whole step, leaves little room.

Source: Patel et al. 2024 (POLCA), sections 5 and 6.
"""

from __future__ import annotations

from typing import Any

from windtunnel.errors import BadInput, Problem
from windtunnel.specs.jobs import JobsSpec, PowerSpec
from windtunnel.techniques.base import Knob, Technique


def _fed(jobs: JobsSpec, knobs: dict[str, Any]) -> JobsSpec:
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


TECHNIQUE = Technique(
    id="polca",
    knobs={
        "oversubscribed": Knob(
            0.3, 0.0, 10.0, "nodes of a row beyond what its feed carries at design power, as a share"
        ),
        "first": Knob(0.80, 0.06, 1.0, "share of the limit above which low priority is locked to the first clock"),
        "second": Knob(0.89, 0.06, 1.0, "share above which low goes to the second clock, then high to the first"),
    },
    edits=(("jobs", "power"),),
    saves="feeds and room for more servers",
    resource="energy",
    jobs_section=_fed,
)
