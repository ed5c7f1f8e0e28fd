"""What `dsi.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.scenario import Scenario
from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques.serving import ServingPart, served


def applies_to(scenario: Scenario) -> str | None:
    if scenario.serving is not None and scenario.serving.speculation is None:
        return "the scenario drafts no tokens: serving.speculation is absent"
    return served(scenario)


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    if serving.speculation is None:
        return serving
    changed = {"order": "dsi", "verifiers": int(knobs["verifiers"])}
    return serving.model_copy(update={"speculation": serving.speculation.model_copy(update=changed)})


serving = ServingPart(settings=_settings)
