"""What techniques of learning share: the case that their limits are tested in, and what they may cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windtunnel.techniques.limits import Limits

QUALITY = "loss rises with the local steps of a round; `windtunnel learn` shows it on a small task"
ASYNC_QUALITY = "differences that start from older parameters; `windtunnel learn` shows what that costs on a small task"
SLOW_LINK: dict[str, Any] = {
    "learning": {
        "task": "logistic",
        "workers": 8,
        "steps": 400,
        "algorithms": ["data_parallel"],
        "link": {"bandwidth": "1 Gb/s", "latency": "50 ms"},
        "step_s": "1 s",
        "parameters": "1B",
        "layers": 16,
    },
}
"""Eight workers with a billion parameters behind links of 1 Gb/s."""
FREE_LINK: dict[str, Any] = {"learning": {"link": {"bandwidth": "100 Tb/s", "latency": 0}}}


def limits_of(costly: Mapping[str, Any], costly_scenario: Mapping[str, Any] | None = None) -> Limits:
    """Hours of an algorithm next to those of data parallelism.

    Args:
        costly: Knobs at which it takes longer than data parallelism, whose messages hide behind the backward.
        costly_scenario: Merged into the case; absent: links of 100 Gb/s, behind whose backward it hides.
    """
    return Limits(
        scenario=SLOW_LINK,
        measure="last.hours",
        free=FREE_LINK,
        costly=costly,
        costly_scenario=costly_scenario or {"learning": {"link": {"bandwidth": "100 Gb/s", "latency": 0}}},
    )
