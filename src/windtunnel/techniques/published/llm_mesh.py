"""LLM-Mesh: many deployments take turns on shared GPUs and CPUs, token by token, as objectives allow.

It sets `serving.mesh` (`serving/mesh/`) where the scenario's tenants are deployments.

Source: Xu et al. 2025, sections 4 to 6.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.mesh import MeshSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.serving import ServingPart, served


def _applies(scenario: Scenario) -> str | None:
    if scenario.serving is not None and len(scenario.serving.traffic.tenants) < 2:
        return "nothing shares devices: traffic.tenants are fewer than two"
    return served(scenario)


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    if len(serving.traffic.tenants) < 2:
        return serving
    own = serving.mesh or MeshSpec()
    return serving.model_copy(update={"mesh": own.model_copy(update={"sharing": "shared", **knobs})})


TECHNIQUE = Technique(
    id="llm-mesh",
    knobs={
        "keep_alive_s": Knob(1.0, 0.0, 1e6, "idle deployments stay this long"),
        "margin": Knob(1.0, 0.05, 1.0, "of the objectives that placements count on"),
    },
    edits=(("run", "mesh"),),
    applies_to=_applies,
    serving=ServingPart(settings=_settings),
    saves="devices that wait for one model",
    resource="waiting",
)
