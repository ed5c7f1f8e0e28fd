"""What `llm-mesh.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.mesh import MeshSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques.serving import ServingPart, served


def applies_to(scenario: Scenario) -> str | None:
    if scenario.serving is not None and len(scenario.serving.traffic.tenants) < 2:
        return "nothing shares devices: traffic.tenants are fewer than two"
    return served(scenario)


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    if len(serving.traffic.tenants) < 2:
        return serving
    own = serving.mesh or MeshSpec()
    return serving.model_copy(update={"mesh": own.model_copy(update={"sharing": "shared", **knobs})})


serving = ServingPart(settings=_settings)
