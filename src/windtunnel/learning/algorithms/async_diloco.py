"""Asynchronous DiLoCo: each worker's difference goes to the outer optimizer as it arrives, and the worker goes on.

Applied one after the other, equal pseudo-gradients are amplified by the momentum that the ones before have built: with
the outer learning rate of synchronous DiLoCo it is worse than that even where all workers are equally fast.

Source: Liu et al. 2024 (arXiv 2401.09135), algorithm 1 and section 4.
"""

from __future__ import annotations

from math import inf
from typing import Any

from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms.arrival import Rules
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.algorithms.buffered import TIMEOUT_S, UPLOAD, Buffered, polynomial, upload_of
from windtunnel.learning.job import Job
from windtunnel.learning.outer.nesterov import Nesterov
from windtunnel.learning.participation.everyone import Everyone
from windtunnel.techniques.knobs import Knob


def build(job: Job, knobs: dict[str, Any]) -> Buffered:
    """Each arrival to Nesterov's momentum; inner states stay with their workers."""
    del job
    return Buffered(
        rules=Rules(
            keeps_inner=True, timeout_s=knobs["timeout_s"] or inf, **upload_of("async-diloco", knobs, Everyone())
        ),
        local_steps=knobs["period"],
        buffer=knobs["buffer"],
        outer=Nesterov(knobs["outer_lr"], knobs["outer_momentum"]),
        weight=polynomial(knobs["staleness_exponent"]),
    )


ALGORITHMS.add(
    "async-diloco",
    AlgorithmKind(
        id="async-diloco",
        summary="each worker's difference goes to Nesterov's momentum as it arrives",
        driver="arrivals",
        build=build,
        knobs={
            "period": Knob(100, 1, 1_000_000, "H: local steps of a round"),
            "outer_lr": Knob(0.7, 0.0, 10.0, "outer learning rate"),
            "outer_momentum": Knob(0.9, 0.0, 0.999999, "outer momentum"),
            "buffer": Knob(1, 1, 100_000, "arrivals that are averaged for one outer step"),
            "staleness_exponent": Knob(0.0, 0.0, 10.0, "a difference s outer steps late weighs (1 + s)^−exponent"),
            **UPLOAD,
            "timeout_s": TIMEOUT_S,
        },
        family="low-comm",
        source="Liu et al. 2024 (arXiv 2401.09135), algorithm 1",
    ),
)
