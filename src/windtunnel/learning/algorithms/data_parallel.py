"""Data parallelism: every step's gradients are averaged before it. The baseline of all others."""

from __future__ import annotations

from typing import Any

from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms import _parts as parts
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.compose import Composed, GradientExchange
from windtunnel.learning.job import Job


def build(job: Job, knobs: dict[str, Any]) -> Composed:
    """Means of gradients, or of what a compressor leaves of them."""
    problems = parts.problems_of("data_parallel")
    exchange = GradientExchange(
        compressor=parts.compressor_of(knobs, problems), feedback=knobs["feedback"], via=parts.via_of(knobs)
    )
    parts.check_exchange(exchange, problems, knobs["may_stall"])
    problems.raise_if_any()
    return Composed(job, gradients=exchange)


ALGORITHMS.add(
    "data_parallel",
    AlgorithmKind(
        id="data_parallel", summary="gradients are averaged in every step", build=build, knobs=parts.wire_knobs()
    ),
)
