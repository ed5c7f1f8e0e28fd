"""DiLoCo: many local AdamW steps on each worker, then one exchange of how far all have moved.

Workers are islands that are joined by slow links. Each trains on its own shard; after some hundred steps the mean of
what they have moved is stepped on by Nesterov's momentum, and all continue from there. Bytes fall by the number of
local steps.

In a training step or a whole run it is local steps of replicas (`plan.local_steps`): their time is counted, their price
in loss is not, and `windtunnel learn` shows it on a small task.

What it costs: parameters and a momentum more on each worker, an exchange that nothing hides, and loss, slowly, as
rounds grow longer.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.compression import LocalSteps
from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.compressing import EDITS
from windtunnel.techniques.learning_limits import QUALITY, limits_of
from windtunnel.techniques.published.co2 import applies


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    """A training step or a run whose replicas exchange once a round: the time of it; its loss is not counted."""
    return plan.model_copy(update={"zero": 0, "local_steps": LocalSteps(steps=knobs["period"], momentum=True)})


TECHNIQUE = Technique(
    id="diloco",
    algorithm="diloco",
    knobs={
        "period": Knob(100, 1, 1000000, doc="H: local steps of a round"),
        "outer_lr": Knob(0.7, 0.0, 10.0, doc="outer learning rate"),
        "outer_momentum": Knob(0.9, 0.0, 0.999999, doc="outer momentum"),
        "drop": Knob(0.0, 0.0, 1.0, doc="probability that a worker's difference is lost; it goes on from where it is"),
    },
    edits=(*EDITS, ("plan", "shard"), ("learning", "algorithm diloco")),
    applies_to=applies,
    plan=_plan,
    saves="network",
    resource="scale-out",
    quality=QUALITY,
    limits=limits_of({"period": 1}),
)
