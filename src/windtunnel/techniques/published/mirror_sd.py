"""Mirror speculative decoding: the draft runs on other devices beside the model's last layers.

It switches `serving.speculation` to its order of drafting and verifying (`serving/speculation/orders/mirror.py`): the
draft's devices come on top, tokens go to them and back, and corrections that no candidate foresaw are drafted for anew.

Source: Bhendawade et al. 2025, section 3. Drafting several tokens a pass (speculative streaming) is left out.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.scenario import Scenario
from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.serving import ServingPart, served


def _applies(scenario: Scenario) -> str | None:
    speculation = scenario.serving.speculation if scenario.serving is not None else None
    if scenario.serving is not None and (speculation is None or speculation.method != "draft"):
        return "it needs a draft model: serving.speculation with method draft"
    return served(scenario)


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    if serving.speculation is None:
        return serving
    changed = {"order": "mirror", "early_exit": float(knobs["early_exit"]), "reuse": float(knobs["reuse"])}
    return serving.model_copy(update={"speculation": serving.speculation.model_copy(update=changed)})


TECHNIQUE = Technique(
    id="mirror-sd",
    adds="devices for the draft",
    knobs={
        "early_exit": Knob(0.5, 0.05, 0.95, "share of the layers after which candidates are named"),
        "reuse": Knob(0.8, 0.0, 1.0, "chance that a correction is among the candidates", given=True),
    },
    edits=(("run", "speculation-order"),),
    applies_to=_applies,
    serving=ServingPart(settings=_settings),
    saves="drafting time",
    resource="compute",
)
