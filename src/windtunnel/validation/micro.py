"""Collective and kernel rows: what they measure and whether it can be expressed."""

from __future__ import annotations

from typing import Any

from windtunnel.training.results import TrainingResult
from windtunnel.validation.reading.values import number, words
from windtunnel.validation.targets import Target


def _none(result: TrainingResult) -> float:
    return float("nan")


def micro_target(row: dict[str, Any], kind: str) -> tuple[tuple[Target, ...], str]:
    """The row's measurement as a target (time preferred, else rate), and a reason when there is none."""
    if "measured" not in words(row.get("kind")):
        return (), f"not a single measurement ({row.get('kind')})"
    time_us = number(row.get("time_us"))
    if time_us:
        return (Target("time", "s", time_us * 1e-6, _none),), ""
    for key, unit in (("busbw_GBps", "GB/s"), ("tflops", "TFLOP/s"), ("gbps", "GB/s"), ("raw_value", "")):
        value = number(row.get(key))
        if value:
            return (Target(key, unit, value, _none),), ""
    return (), f"the {kind} row has no measured value"
