"""Data parallelism: every step's gradients are averaged before it. The baseline of all others."""

from __future__ import annotations

from typing import Any

from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.compose import Composed, GradientExchange
from windtunnel.learning.compressors.cast import Cast
from windtunnel.learning.job import Job
from windtunnel.learning.knobs import Knob


def build(job: Job, knobs: dict[str, Any]) -> Composed:
    """Plain means of gradients."""
    return Composed(job, gradients=GradientExchange(compressor=Cast(bits=knobs["bits"])))


ALGORITHMS.add(
    "data_parallel",
    AlgorithmKind(
        id="data_parallel",
        summary="gradients are averaged in every step",
        build=build,
        knobs={"bits": Knob(32, choices=(16, 32, 64), doc="bits of a gradient on its way")},
    ),
)
