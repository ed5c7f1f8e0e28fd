"""Tokens go from expert to expert without returning, and experts lie where their tokens go next.

Every rank keeps the context of all sequences, so that one all-to-all a layer is enough; an integer programme places the
experts of neighbouring layers so that most tokens stay on their rank or node. What it costs: caches of all sequences on
every rank, new keys and values gathered by all of them once an iteration, ranks with less even loads.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.scenario import Scenario
from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques.base import Knob, ServingPart, Technique
from windtunnel.techniques.serving import served, with_expert_load


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    change = {"coherent": True, "placement": "affinity" if knobs["place"] else "number"}
    return with_expert_load(serving, change)


def _applies(scenario: Scenario) -> str | None:
    reason = served(scenario)
    if reason or scenario.serving is None:
        return reason
    load = scenario.serving.expert_load
    return (
        None if load and not load.eplb else "serving.expert_load must say how experts follow one another, without eplb"
    )


TECHNIQUE = Technique(
    id="exflow",
    knobs={"place": Knob(True, doc="place experts by affinity; else by their number")},
    edits=(("run", "experts"),),
    applies_to=_applies,
    serving=ServingPart(settings=_settings),
    saves="expert exchange",
    resource="network",
)
