"""What `fire-flyer.yaml` changes."""

from __future__ import annotations

from windtunnel.specs.scenario import Scenario
from windtunnel.techniques.default_plan import zero_stage


def applies(scenario: Scenario) -> str | None:
    """Whole gradients are summed."""
    if scenario.training is None:
        return "there is no `training` section"
    if zero_stage(scenario):
        return "gradients are reduced in shards (`plan.zero`), which stays with the vendor's library"
    return None


applies_to = applies
