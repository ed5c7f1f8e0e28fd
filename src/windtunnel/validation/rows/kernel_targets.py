"""What a row of a kernel or of a collective measured."""

from __future__ import annotations

import re
from typing import Any

from windtunnel.training.results.training_result import TrainingResult
from windtunnel.validation.rows.parsing.loose_values import number, words
from windtunnel.validation.rows.targets import Target

_SINGLE = re.compile(r"^measured")


def _no_conversion(result: TrainingResult) -> float:
    return float("nan")


def kernel_target(row: dict[str, Any], kind: str) -> tuple[tuple[Target, ...], str]:
    """The row's measurement as a target (time preferred, else a rate), and a reason when there is none."""
    if words(row.get("kind")) and not _SINGLE.search(words(row.get("kind"))):
        return (), f"not a single measurement ({row.get('kind')})"
    time_us = number(row.get("time_us"))
    if time_us:
        return (Target("time", "s", time_us * 1e-6, _no_conversion),), ""
    for key, unit in (("busbw_GBps", "GB/s"), ("tflops", "TFLOP/s"), ("gbps", "GB/s"), ("raw_value", "")):
        value = number(row.get(key))
        if value:
            return (Target(key, unit, value, _no_conversion),), ""
    return (), f"the {kind} row has no measured value"
