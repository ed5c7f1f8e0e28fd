"""What `sbacc.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.run import RunSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques.published.dbw import all_alike, waiting


def run_section(run: RunSpec, scenario: Scenario, knobs: dict[str, Any]) -> RunSpec:
    return waiting(run, "berrut", {name: value for name, value in knobs.items() if value is not None})


applies_to_run = all_alike
