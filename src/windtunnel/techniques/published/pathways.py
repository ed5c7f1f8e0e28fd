"""Pathways: one controller launches sharded programs ahead of computation, over islands joined by a slower network.

What it costs: the controller's time for each program, which shows where programs are shorter.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.scenario import Scenario
from windtunnel.specs.workload import Controller, TrainingSpec
from windtunnel.techniques.base import Knob, Technique


def _workload(training: TrainingSpec, knobs: dict[str, Any]) -> TrainingSpec:
    given = training.controller or Controller()
    update: dict[str, Any] = {"ahead": knobs["ahead"]}
    update |= {name: knobs[name] for name in ("dispatch_s", "latency_s") if knobs[name] is not None}
    return training.model_copy(update={"controller": given.model_copy(update=update)})


def _applies(scenario: Scenario) -> str | None:
    if scenario.training is None:
        return "it acts on training steps"
    return None if scenario.training.controller else "every host launches its own work (no training.controller)"


TECHNIQUE = Technique(
    id="pathways",
    knobs={
        "ahead": Knob(True, doc="launch programs before their inputs are there"),
        "dispatch_s": Knob(
            None, 0.0, 10.0, "seconds in which the controller launches one program; absent: as given", given=True
        ),
        "latency_s": Knob(None, 0.0, 1.0, "from the controller to the devices, one way; absent: as given", given=True),
    },
    edits=(("plan", "controller"),),
    applies_to=_applies,
    workload=_workload,
    saves="launches that wait for inputs",
    resource="host",
)
