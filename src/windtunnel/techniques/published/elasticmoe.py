"""ElasticMoE: an instance of experts grows over more devices while it serves.

It sets `serving.autoscale.method` to `in_place` (`serving/autoscale/resize.py`, `in_place.py`) where the scenario
scales one instance over several sizes.

Source: Singh et al. 2025, sections 4 and 5.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.scenario import Scenario
from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.serving import ServingPart, served


def _applies(scenario: Scenario) -> str | None:
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


TECHNIQUE = Technique(
    id="elasticmoe",
    knobs={"reconfigure_s": Knob(4.0, 0.0, 1e4, "groups of processes and warm-up of prepared workers", given=True)},
    edits=(("run", "autoscale"),),
    applies_to=_applies,
    serving=ServingPart(settings=_settings),
    saves="time without the new devices",
    resource="waiting",
)
