"""What `mirror-sd.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.scenario import Scenario
from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques.serving import ServingPart, served


def applies_to(scenario: Scenario) -> str | None:
    speculation = scenario.serving.speculation if scenario.serving is not None else None
    if scenario.serving is not None and (speculation is None or speculation.method != "draft"):
        return "it needs a draft model: serving.speculation with method draft"
    return served(scenario)


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    if serving.speculation is None:
        return serving
    changed = {"order": "mirror", "early_exit": float(knobs["early_exit"]), "reuse": float(knobs["reuse"])}
    return serving.model_copy(update={"speculation": serving.speculation.model_copy(update=changed)})


serving = ServingPart(settings=_settings)
