"""Local Adam: workers step alone; parameters and both moments are averaged at the end of every round.

Source: Cheng and Glasgow 2025 (arXiv 2409.13155).
"""

from __future__ import annotations

from typing import Any

from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms import _parts as parts
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.compose import Composed, ParameterExchange, StateExchange
from windtunnel.learning.compressors.cast import Cast
from windtunnel.learning.job import Job
from windtunnel.learning.outer.average import Average
from windtunnel.techniques.knobs import Knob


def build(job: Job, knobs: dict[str, Any]) -> Composed:
    """Rounds of `period` steps; three vectors of the model's size travel at the end of each."""
    problems = parts.problems_of("local_adam")
    parts.check_states(("m", "v"), job, problems)
    problems.raise_if_any()
    wire = Cast(knobs["bits"])
    exchange = ParameterExchange(
        compressor=wire,
        outer=Average(1.0),
        period=knobs["period"],
        states=tuple(StateExchange(name=name, period=knobs["period"], compressor=wire) for name in ("m", "v")),
        evaluate="mean",
    )
    return Composed(job, parameters=exchange, clip=knobs["clip"])


ALGORITHMS.add(
    "local_adam",
    AlgorithmKind(
        id="local_adam",
        summary="local Adam steps, then means of parameters and of both moments",
        build=build,
        knobs={
            "period": parts.PERIOD,
            "clip": Knob(0.0, 0.0, 1e9, "largest magnitude of an entry of a gradient; 0: none"),
            "bits": Knob(32, choices=(16, 32, 64), doc="bits of a value on its way"),
        },
        family="low-comm",
        source="Cheng and Glasgow 2025 (arXiv 2409.13155)",
    ),
)
