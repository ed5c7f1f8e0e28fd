"""Distributed speculative inference: several instances of the model verify while the draft goes on.

It switches `serving.speculation` to its order of drafting and verifying (`serving/speculation/orders/dsi.py`) and pays
with instances of the model.

Source: Timor et al. 2024.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.scenario import Scenario
from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.serving import ServingPart, served


def _applies(scenario: Scenario) -> str | None:
    if scenario.serving is not None and scenario.serving.speculation is None:
        return "the scenario drafts no tokens: serving.speculation is absent"
    return served(scenario)


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    if serving.speculation is None:
        return serving
    changed = {"order": "dsi", "verifiers": int(knobs["verifiers"])}
    return serving.model_copy(update={"speculation": serving.speculation.model_copy(update=changed)})


TECHNIQUE = Technique(
    id="dsi",
    adds="instances of the model that verify",
    knobs={"verifiers": Knob(4, 1, 64, "instances of the model that verify together")},
    edits=(("run", "speculation-order"),),
    applies_to=_applies,
    serving=ServingPart(settings=_settings),
    saves="waiting for verification",
    resource="waiting",
)
