"""Shortest predicted rest first, with preemption that stops when a request is nearly done.

The mechanism is `serving/queues/srtf.py`; the predictor's error is a knob.

Source: Shahout et al. 2025 (TRAIL), section 3.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.serving import ServingPart, served, with_pools


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    return with_pools(serving, lambda _: {"queue": {"srtf": dict(knobs)}})


TECHNIQUE = Technique(
    id="trail",
    knobs={
        "error": Knob(0.0, 0.0, 10.0, "standard deviation of ln(predicted / true)", given=True),
        "until": Knob(0.8, 0.0, 1.0, "share of its predicted answer after which a request keeps its place"),
    },
    edits=(("run", "queue"),),
    applies_to=served,
    serving=ServingPart(settings=_settings),
    saves="waiting behind long answers",
    resource="waiting",
)
