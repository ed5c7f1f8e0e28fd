"""What `elasticmoe.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.scenario import Scenario
from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques.serving import ServingPart, served


def applies_to(scenario: Scenario) -> str | None:
    own = scenario.serving.autoscale if scenario.serving is not None else None
    if scenario.serving is not None and (own is None or not own.plans):
        return "nothing changes its size: serving.autoscale.plans is absent"
    return served(scenario)


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    own = serving.autoscale
    if own is None or not own.plans:
        return serving
    kept = {name: getattr(own, name) for name in ("plans", "signal", "target", "tolerance", "interval_s", "cooldown_s")}
    grown = type(own)(method="in_place", reconfigure_s=knobs["reconfigure_s"], **kept)
    return serving.model_copy(update={"autoscale": grown})


serving = ServingPart(settings=_settings)
