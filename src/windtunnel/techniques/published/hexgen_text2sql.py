"""HexGen-Text2SQL: unlike instances are chosen by speed and queue, and the most urgent stage is served first.

It switches every pool's queue to `stage_urgency` and the router to `speed_and_queue`; programs need a deadline
(`programs.deadline_s`, or `latency_s` of an agent).

Source: Peng et al. 2025.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.serving import ServingPart, served, with_pools


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    serving = with_pools(serving, lambda _: {"queue": "stage_urgency"})
    return serving.model_copy(update={"router": {"speed_and_queue": {"alpha": knobs["alpha"]}}})


TECHNIQUE = Technique(
    id="hexgen-text2sql",
    knobs={"alpha": Knob(0.2, 0.0, 1.0, doc="weight of a call's own seconds, beside those of the queue")},
    edits=(("run", "queue"), ("run", "router")),
    applies_to=served,
    strategy="text_to_sql",
    serving=ServingPart(settings=_settings),
    saves="waiting of programs that are due",
    resource="compute",
)
