"""Asynchronous DiLoCo with delayed Nesterov (DN) and dynamic local updates (DyLU).

DN: momentum takes arrivals in every N of them. DyLU: a worker's round has ⌊H·v/max v⌋ local steps, v its measured steps
a second, so that all rounds take about as long; first rounds, of unknown speed, have H.

Source: Liu et al. 2024 (arXiv 2401.09135), algorithms 3 and 4.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import floor, inf
from typing import Any

from windtunnel.arrays import Reals
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms.arrival import Answer, Rules, Server, Upload
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.algorithms.buffered import TIMEOUT_S, UPLOAD, Buffered, polynomial, upload_of
from windtunnel.learning.job import Job
from windtunnel.learning.outer.delayed_nesterov import DelayedNesterov
from windtunnel.learning.participation.everyone import Everyone
from windtunnel.techniques.knobs import Knob


@dataclass(slots=True, kw_only=True)
class DynamicLocalSteps(Buffered):
    """Rounds with steps in proportion to the worker's speed."""

    dynamic: bool
    speeds: dict[int, float] = field(default_factory=dict)
    """Steps a second of each worker, as its last upload showed."""

    def start(self, initial: Reals) -> Server:
        """See `ArrivalAlgorithm.start`."""
        self.speeds.clear()
        return Buffered.start(self, initial)

    def assign(self, server: Server, worker: int, now_s: float) -> int:
        """⌊H·v/max v⌋, 1 at least."""
        del server, now_s
        speed = self.speeds.get(worker)
        if not self.dynamic or speed is None:
            return self.local_steps
        return max(1, floor(self.local_steps * speed / max(self.speeds.values()) + 1e-9))

    def arrived(self, server: Server, upload: Upload) -> Answer:
        """Measure its speed; then as ever."""
        self.speeds[upload.worker] = upload.steps / max(upload.compute_s, 1e-300)
        return Buffered.arrived(self, server, upload)


def build(job: Job, knobs: dict[str, Any]) -> DynamicLocalSteps:
    """N is the number of workers unless it is stated."""
    every = knobs["every"] or job.workers
    return DynamicLocalSteps(
        rules=Rules(
            keeps_inner=True, timeout_s=knobs["timeout_s"] or inf, **upload_of("delayed-nesterov", knobs, Everyone())
        ),
        local_steps=knobs["period"],
        buffer=1,
        outer=DelayedNesterov(knobs["outer_lr"], knobs["outer_momentum"], every, knobs["spread"]),
        weight=polynomial(0.0),
        dynamic=knobs["dynamic_steps"],
    )


ALGORITHMS.add(
    "delayed-nesterov",
    AlgorithmKind(
        id="delayed-nesterov",
        summary="asynchronous DiLoCo whose momentum takes arrivals in together; local steps in proportion to speed",
        driver="arrivals",
        build=build,
        knobs={
            "period": Knob(100, 1, 1_000_000, "H: local steps of the fastest worker's round"),
            "outer_lr": Knob(0.7, 0.0, 10.0, "outer learning rate"),
            "outer_momentum": Knob(0.9, 0.0, 0.999999, "outer momentum"),
            "every": Knob(None, 1, 100_000, "N: arrivals between changes of the momentum; absent: the workers"),
            "spread": Knob(0.0, 0.0, 1.0, "c: share of the momentum's step that each arrival makes"),
            "dynamic_steps": Knob(True, doc="DyLU: local steps in proportion to the worker's speed"),
            **UPLOAD,
            "timeout_s": TIMEOUT_S,
        },
        family="low-comm",
        source="Liu et al. 2024 (arXiv 2401.09135), algorithms 3 and 4",
    ),
)
