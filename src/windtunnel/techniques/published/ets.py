"""Efficient tree search: of a search's steps those stay whose reward is worth the cache that they hold.

It switches `serving.traffic.trajectories` to its rule (`serving/traffic/trajectories/methods/ets.py`).

Source: Hooper et al. 2025.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.scenario import Scenario
from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.serving import ServingPart, served


def _applies(scenario: Scenario) -> str | None:
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


TECHNIQUE = Technique(
    id="ets",
    knobs={
        "node_cost": Knob(1.0, 0.0, 10.0, "weight of the share of nodes that are kept"),
        "coverage": Knob(1.45, 0.0, 10.0, "weight of the share of meanings that are kept"),
    },
    edits=(("run", "trajectories"),),
    applies_to=_applies,
    serving=ServingPart(settings=_settings),
    saves="cache that trajectories do not share",
    resource="memory",
    quality="trajectories are dropped before they end: the search may miss its best answer",
)
