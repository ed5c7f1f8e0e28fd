"""What `sequential-gradient-coding.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.run import RunSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques.published.dbw import all_alike, waiting


def run_section(run: RunSpec, scenario: Scenario, knobs: dict[str, Any]) -> RunSpec:
    rule, own = knobs["scheme"], {name: knobs[name] for name in ("burst", "window", "late", "patience")}
    return waiting(run, rule, own)


applies_to_run = all_alike
