"""What of a plan a technique asks that the scenario may leave to its framework."""

from __future__ import annotations

from windtunnel.specs.scenario import Scenario
from windtunnel.stacks.defaults import Setting, scenario_defaults


def zero_stage(scenario: Scenario) -> int:
    """Stage of ZeRO of a training scenario: as stated, else what the release of its framework sets by itself."""
    plan, training = scenario.plan, scenario.training
    if "zero" in plan.model_fields_set or training is None:
        return plan.zero
    setting = Setting(precision=training.precision, phase=training.phase)
    found = scenario_defaults("plan", training.framework, training.framework_version, setting).get("zero")
    return plan.zero if found is None else int(found.value)
