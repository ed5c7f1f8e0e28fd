"""Flover: requests that come at different times are fused into one running batch, token by token.

The mechanism is in-flight batching without a paged cache: `serving/batching/flover.py`.

Source: Yao et al. 2023, section 4.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques.base import Technique
from windtunnel.techniques.serving import ServingPart, served, with_pools


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    return with_pools(serving, lambda _: {"policy": "flover"})


TECHNIQUE = Technique(
    id="flover",
    edits=(("run", "policy"),),
    applies_to=served,
    serving=ServingPart(settings=_settings),
    saves="waiting for a batch to end",
    resource="waiting",
)
