"""A band around a prediction, from residuals of comparable measured rows that were predicted without their group."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.training.results import Interval

LEVEL = 0.8
_UNKNOWN = 0.25
"""Half-width where nothing comparable was measured: leave-one-device-out errors reach 5–16 %, other vendors 30–40 %."""
_LEAST = 8
"""Rows that a class needs; smaller ones fall back to the next wider class."""
_WIDEN = (1.0, 1.0, 1.3, 1.6)
"""Widening per step away from the same software and device: systematic offsets between releases and clusters reach
10–20 % where rows of one class scatter by 3–5 %."""


def signature(model: ModelSpec, cluster: ClusterSpec) -> str:
    """What makes a (model, cluster) group: dimensions, part and size."""
    return (
        f"{model.hidden_size}x{model.num_hidden_layers}x{model.vocab_size}x{model.num_experts}"
        f"|{cluster.device.id}x{cluster.num_devices}"
    )


@cache
def _residuals() -> list[list[Any]]:
    path = resources.files("windtunnel") / "catalog/residuals/training.json"
    if not path.is_file():
        return []
    rows: list[list[Any]] = json.loads(path.read_text())["rows"]
    return rows


def interval_of(framework: str, cluster: ClusterSpec, model: ModelSpec, step_time_s: float) -> Interval:
    """80 % band from the closest class of rows: (software, device), (software, generation), generation, all.

    Rows of the same model and cluster are left out, so a prediction of a measured row never leans on that row. Finite
    classes use the (n + 1) quantile level.
    """
    own = signature(model, cluster)
    mixture = bool(model.num_experts)
    device = cluster.device
    rows = [r for r in _residuals() if r[3] == mixture and r[4] != own]
    classes = (
        (f"{framework} on {device.id}", [r for r in rows if r[0] == framework and r[1] == device.id]),
        (f"{framework} on {device.generation}", [r for r in rows if r[0] == framework and r[2] == device.generation]),
        (f"any software on {device.generation}", [r for r in rows if r[2] == device.generation]),
        ("any software and device", rows if device.kind == "gpu" and device.vendor == "NVIDIA" else []),
    )
    for depth, (name, members) in enumerate(classes):
        n = len(members)
        if n < _LEAST:
            continue
        errors = np.array([r[6] for r in members])
        share = min(1.0, LEVEL * (n + 1) / n)
        centre = float(np.median(errors))
        low_e = centre + (float(np.quantile(errors, (1 - share) / 2)) - centre) * _WIDEN[depth]
        high_e = centre + (float(np.quantile(errors, (1 + share) / 2)) - centre) * _WIDEN[depth]
        families = ", ".join(sorted({r[5] for r in members}))
        low, high = step_time_s / (1 + max(high_e, 0.0)), step_time_s / (1 + min(low_e, 0.0))
        return Interval(LEVEL, low, high, f"{n} rows, {name}: {families}", "fitted" if depth < 2 else "analytic")
    low, high = step_time_s * (1 - _UNKNOWN), step_time_s * (1 + _UNKNOWN)
    return Interval(LEVEL, low, high, "no comparable rows: data sheet and generic coefficients", "assumed")
