"""Data parallelism: every step's gradients are averaged before it. The baseline of all others.

With a compressor it is the plain way to use one: what each worker sends is decoded and averaged, and what a message
leaves out is added to the worker's next gradient where `feedback` is above 0 (Karimireddy et al. 2019).
"""

from __future__ import annotations

from typing import Any

from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms import _parts as parts
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.compose import Composed, GradientExchange
from windtunnel.learning.job import Job


def build(job: Job, knobs: dict[str, Any]) -> Composed:
    """Means of gradients as receivers decode them."""
    problems = parts.problems_of("data_parallel")
    exchange = GradientExchange(
        compressor=parts.compressor_of(knobs, problems), feedback=knobs["feedback"], via=parts.via_of(knobs)
    )
    parts.check_exchange(exchange, problems)
    problems.raise_if_any()
    return Composed(job, gradients=exchange)


ALGORITHMS.add(
    "data_parallel",
    AlgorithmKind(
        id="data_parallel",
        summary="gradients are averaged in every step",
        build=build,
        knobs=parts.wire_knobs(),
    ),
)
