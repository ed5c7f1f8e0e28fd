"""DiLoCo: many AdamW steps a worker, then Nesterov's momentum over the mean of what the workers have moved.

Source: Douillard et al. 2023 (arXiv 2311.08105), algorithm 1.
"""

from __future__ import annotations

from typing import Any

from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.compose import Composed, ParameterExchange
from windtunnel.learning.compressors.cast import Cast
from windtunnel.learning.job import Job
from windtunnel.learning.knobs import Knob
from windtunnel.learning.outer.nesterov import Nesterov


def build(job: Job, knobs: dict[str, Any]) -> Composed:
    """Rounds of `period` local steps; inner states stay with their workers."""
    exchange = ParameterExchange(
        compressor=Cast(bits=knobs["bits"]),
        outer=Nesterov(knobs["outer_lr"], knobs["outer_momentum"]),
        period=knobs["period"],
    )
    return Composed(job, parameters=exchange)


ALGORITHMS.add(
    "diloco",
    AlgorithmKind(
        id="diloco",
        summary="local AdamW steps, then Nesterov's momentum over the mean difference to the anchor",
        build=build,
        knobs={
            "period": Knob(100, 1, 1_000_000, "H: local steps of a round"),
            "outer_lr": Knob(0.7, 0.0, 10.0, "outer learning rate"),
            "outer_momentum": Knob(0.9, 0.0, 0.999999, "outer momentum"),
            "bits": Knob(32, choices=(16, 32, 64), doc="bits of a difference on its way"),
        },
        family="low-comm",
        source="Douillard et al. 2023 (arXiv 2311.08105), algorithm 1",
    ),
)
