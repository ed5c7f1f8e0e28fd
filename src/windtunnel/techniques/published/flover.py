"""Flover: requests that come at different times are fused into one running batch, token by token.

The mechanism is in-flight batching without a paged cache: `serving/policies/flover.py`.

Source: Yao et al. 2023, section 4.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Paper, Technique
from windtunnel.techniques.serving import ServingPart, served, with_pools


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    return with_pools(serving, lambda _: {"policy": "flover"})


TECHNIQUE = Technique(
    id="flover",
    family="serving",
    summary="a new request joins the running batch after its own prompt phase",
    paper=Paper(
        "Flover: A Temporal Fusion Framework for Efficient Autoregressive Model Parallel Inference", 2023,
        "https://arxiv.org/abs/2305.13484", "Yao, Jinghan and others", "HiPC 2023",
    ),
    levels=("run",),
    status="partial",
    missing="time of compacting buffers when requests end",
    edits=(("run", "policy"),),
    applies_to=served,
    serving=ServingPart(settings=_settings),
    saves="waiting for a batch to end",
    experiment="flover",
)  # fmt: skip

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
