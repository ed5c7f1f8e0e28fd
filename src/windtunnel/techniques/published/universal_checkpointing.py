"""What `universal-checkpointing.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.run import RunSpec
from windtunnel.specs.scenario import Scenario


def run_section(run: RunSpec, scenario: Scenario, knobs: dict[str, Any]) -> RunSpec:
    change = {"policy": "reshape", "convert_processes": knobs["processes"], "least_replicas": knobs["least_nodes"]}
    return run.model_copy(update={"recovery": run.recovery.model_copy(update=change)})
