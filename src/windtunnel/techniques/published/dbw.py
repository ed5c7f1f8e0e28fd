"""What `dbw.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.run import RunSpec
from windtunnel.specs.scenario import Scenario


def all_alike(scenario: Scenario) -> str | None:
    """Why nobody is waited for; None where workers differ."""
    run = scenario.run
    return "run.stragglers is absent: all workers are alike" if run is None or run.stragglers is None else None


def waiting(run: RunSpec, rule: str, knobs: dict[str, Any]) -> RunSpec:
    """The run with another rule for whom a step waits."""
    assert run.stragglers is not None
    return run.model_copy(update={"stragglers": run.stragglers.model_copy(update={"wait": {rule: knobs}})})


def run_section(run: RunSpec, scenario: Scenario, knobs: dict[str, Any]) -> RunSpec:
    chosen = {name: value for name, value in knobs.items() if value is not None}
    return waiting(run, "fastest", chosen)


applies_to_run = all_alike
