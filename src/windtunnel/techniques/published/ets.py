"""What `ets.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.scenario import Scenario
from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques.serving import ServingPart, served


def applies_to(scenario: Scenario) -> str | None:
    if scenario.serving is not None and scenario.serving.traffic.trajectories is None:
        return "the scenario searches nothing: serving.traffic.trajectories is absent"
    return served(scenario)


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    search = serving.traffic.trajectories
    if search is None:
        return serving
    kept = {name: getattr(search, name) for name in search.model_fields_set - {"keep"}}
    own = type(search).model_validate(kept | {"method": "ets"} | knobs)
    return serving.model_copy(update={"traffic": serving.traffic.model_copy(update={"trajectories": own})})


serving = ServingPart(settings=_settings)
