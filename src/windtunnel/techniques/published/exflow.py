"""What `exflow.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.scenario import Scenario
from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques.base import ServingPart
from windtunnel.techniques.serving import served, with_expert_load


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    change = {"coherent": True, "placement": "affinity" if knobs["place"] else "number"}
    return with_expert_load(serving, change)


def applies_to(scenario: Scenario) -> str | None:
    reason = served(scenario)
    if reason or scenario.serving is None:
        return reason
    load = scenario.serving.expert_load
    return (
        None if load and not load.eplb else "serving.expert_load must say how experts follow one another, without eplb"
    )


serving = ServingPart(settings=_settings)
