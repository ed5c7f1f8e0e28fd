"""The clock of a target: when local steps end, what is sent until then, and with what energy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.learning.tasks.base import Shapes
from windtunnel.specs.learning import WorkerLinkSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetModel:
    """What is timed."""

    model: str
    parameters: float
    shapes: Shapes
    step_s: float | None
    source: str
    grade: str
    step_watts: float | None = None
    idle_watts: float | None = None
    dollars_per_hour: float | None = None
    """Of one worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Sums after each local step; entry 0 is before the first."""

    end_s: Floats
    bytes: Floats
    """That one worker has sent."""
    joules: Floats
    utilisation: float | None
    by_link: dict[str, float] = field(default_factory=dict)
    staleness: dict[str, Any] = field(default_factory=dict)


def plain_clock(algorithm: Any, target: TargetModel, link: WorkerLinkSpec | None, workers: int, steps: int) -> Clock:
    """Steps of one length; a message takes its bytes over the link, and hides behind steps before it is needed."""
    sent = np.zeros(steps + 1)
    end = np.zeros(steps + 1)
    arrives: dict[int, float] = {}
    now = 0.0
    step_s = target.step_s or np.nan
    for step in range(steps):
        now = max(now, arrives.pop(step, 0.0)) + step_s
        for message in algorithm.messages(step):
            payload = message.nbytes(target.shapes)
            nbytes = payload * (2 * (workers - 1) / workers if message.kind == "all_reduce" else 1.0)
            sent[step + 1] += nbytes
            took = 0.0 if link is None else nbytes / link.bandwidth + link.latency
            arrives[message.needed_by] = max(arrives.get(message.needed_by, 0.0), now + took)
        end[step + 1] = now
    if steps in arrives:
        end[steps] = max(end[steps], arrives[steps])
    total = np.cumsum(sent)
    joules = np.full(steps + 1, np.nan) if target.step_watts is None else end * target.step_watts * workers
    utilisation = float(steps * step_s / end[-1]) if target.step_s else None
    return Clock(
        end_s=end, bytes=total, joules=joules, utilisation=utilisation, by_link={"worker": float(total[-1]) * workers}
    )
