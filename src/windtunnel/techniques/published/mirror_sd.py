"""Mirror speculative decoding: the draft runs on other devices beside the model's last layers.

It switches `serving.speculation` to its order of drafting and verifying (`serving/speculation/orders/mirror.py`): the
draft's devices come on top, tokens go to them and back, and corrections that no candidate foresaw are drafted for anew.

Source: Bhendawade et al. 2025, section 3. Drafting several tokens a pass (speculative streaming) is left out.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.scenario import Scenario
from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Limits, Technique
from windtunnel.techniques.serving import ServingPart, served

_TINY = {
    "name": "tiny",
    "family": "dense",
    "hidden_size": 64,
    "num_hidden_layers": 1,
    "vocab_size": 128,
    "num_attention_heads": 1,
    "intermediate_size": 64,
}
"""A draft that takes next to no time."""


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
    limits=Limits(
        scenario={
            "model": "Qwen/Qwen3-32B",
            "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
            "serving": {
                "engine": "vllm",
                "engine_version": "0.10.0",
                "pools": [{"plan": {"tp": 4}}],
                "speculation": {
                    "method": "draft",
                    "draft": "Qwen/Qwen3-1.7B",
                    "draft_tp": 1,
                    "tokens": 4,
                    "acceptance": 0.8,
                },
                "traffic": {"concurrency": 1, "num_requests": 4, "input_tokens": 128, "output_tokens": 256},
            },
        },
        measure="tpot_s.mean",
        free={"serving": {"speculation": {"draft": _TINY}}},
        vanishes=0.05,
        costly={"reuse": 0.0},
    ),
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
