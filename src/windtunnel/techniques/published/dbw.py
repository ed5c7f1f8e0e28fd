"""Dynamic backup workers: a step waits for as many of the fastest gradients as give most progress a second.

A parameter server needs not all gradients. One that comes late is thrown away, and the step goes on: shorter, with more
noise. How many are worth waiting for follows from the law of the workers' times and from the noise of gradients over
their true length, which grows while training: early one gradient is nearly as good as all, late each counts.

What it costs: the work of those that are not waited for, and steps with fewer gradients, of which a run needs more.

Source: Xu et al. 2021, sections 3 and 4.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.run import RunSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques.base import Knob, Technique


def all_alike(scenario: Scenario) -> str | None:
    """Why nobody is waited for; None where workers differ."""
    run = scenario.run
    return "run.stragglers is absent: all workers are alike" if run is None or run.stragglers is None else None


def waiting(run: RunSpec, rule: str, knobs: dict[str, Any]) -> RunSpec:
    """The run with another rule for whom a step waits."""
    assert run.stragglers is not None
    return run.model_copy(update={"stragglers": run.stragglers.model_copy(update={"wait": {rule: knobs}})})


def _fastest(run: RunSpec, scenario: Scenario, knobs: dict[str, Any]) -> RunSpec:
    chosen = {name: value for name, value in knobs.items() if value is not None}
    return waiting(run, "fastest", chosen)


TECHNIQUE = Technique(
    id="dbw",
    algorithm="dbw",
    knobs={
        "backup": Knob(None, 0, 1000000, "workers not waited for; absent: as many as give most progress a second"),
        "noise": Knob(16.0, 0.0, 1e9, "variance of one worker's gradient over its squared true length", given=True),
    },
    edits=(("run", "step waits"),),
    applies_to_run=all_alike,
    run_section=_fastest,
    saves="stragglers",
    quality="fewer gradients a step: more steps to the same loss, counted by the noise stated",
)
