"""Local SGD: workers step alone and are averaged at the end of every round.

Source: Stich 2019 (arXiv 1805.09767).
"""

from __future__ import annotations

from typing import Any

from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms import _parts as parts
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.compose import Composed, ParameterExchange
from windtunnel.learning.job import Job
from windtunnel.learning.outer.average import Average
from windtunnel.techniques.knobs import Knob


def build(job: Job, knobs: dict[str, Any]) -> Composed:
    """Rounds of `period` steps of the job's inner optimizer, whose states stay with their workers."""
    problems = parts.problems_of("local_sgd")
    exchange = ParameterExchange(
        compressor=parts.compressor_of(knobs, problems),
        outer=Average(knobs["outer_lr"]),
        period=knobs["period"],
        feedback=knobs["feedback"],
        via=parts.via_of(knobs),
        evaluate="mean",
    )
    parts.check_exchange(exchange, problems, knobs["may_stall"])
    problems.raise_if_any()
    return Composed(job, parameters=exchange)


ALGORITHMS.add(
    "local_sgd",
    AlgorithmKind(
        id="local_sgd",
        summary="local steps, then the mean of the workers",
        build=build,
        knobs={
            "period": Knob(8, 1, 1_000_000, "H: local steps of a round"),
            "outer_lr": Knob(1.0, 0.0, 10.0, "share of the way to the mean"),
            **parts.wire_knobs(),
        },
        source="Stich 2019 (arXiv 1805.09767)",
    ),
)
