"""A band around a prediction, from residuals of comparable measured rows."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

from windtunnel.cost.coefficients import Coefficients
from windtunnel.specs.device import DeviceSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.training.results import Interval

_UNKNOWN = 0.25
"""Half-width where nothing comparable was measured: leave-one-device-out errors reach 5–16 %, other vendors 30–40 %."""


@cache
def _residuals() -> dict[str, Any]:
    import json

    path = resources.files("windtunnel") / "catalog/residuals/training.json"
    if not path.is_file():
        return {}
    data: dict[str, Any] = json.loads(path.read_text())
    return data


def interval_of(
    framework: str, device: DeviceSpec, model: ModelSpec, step_time_s: float, coefficients: Coefficients
) -> Interval:
    """80 % band: the closest class of rows that has residuals, from (software, device, dense or mixture) outwards."""
    kind = "moe" if model.num_experts else "dense"
    table = _residuals()
    for depth, key in enumerate(
        (
            f"{framework}|{device.id}|{kind}",
            f"{framework}|{device.generation}|{kind}",
            f"*|{device.generation}|{kind}",
            f"*|*|{kind}",
        )
    ):
        entry = table.get(key)
        if entry:
            grade = "fitted" if depth <= 1 else "analytic"
            low, high = step_time_s / (1 + entry["high"]), step_time_s / (1 + entry["low"])
            return Interval(0.8, min(low, high), max(low, high), f"{entry['n']} rows: {entry['families']}", grade)
    low, high = step_time_s * (1 - _UNKNOWN), step_time_s * (1 + _UNKNOWN)
    return Interval(0.8, low, high, "no comparable rows: data sheet and generic coefficients", "assumed")
