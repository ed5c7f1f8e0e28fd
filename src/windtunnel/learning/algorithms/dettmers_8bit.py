"""8-bit approximations: data parallelism whose gradients travel as 8-bit numbers, without feedback.

Source: Dettmers 2015 (arXiv 1511.04561).
"""

from __future__ import annotations

from typing import Any

from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.compose import Composed, GradientExchange
from windtunnel.learning.compressors.dynamic_tree8 import DynamicTree8
from windtunnel.learning.job import Job
from windtunnel.learning.knobs import Knob


def build(job: Job, knobs: dict[str, Any]) -> Composed:
    """Every worker decodes all messages and averages."""
    return Composed(job, gradients=GradientExchange(compressor=DynamicTree8(knobs["kind"], knobs["block"])))


ALGORITHMS.add(
    "dettmers-8bit",
    AlgorithmKind(
        id="dettmers-8bit",
        summary="gradients as 8-bit numbers, dynamic tree or linear",
        build=build,
        knobs={
            "kind": Knob("tree", choices=("tree", "linear"), doc="the 8-bit type"),
            "block": Knob(0, 0, 10**9, "entries that share a scale; 0: a tensor"),
        },
        family="compression",
        source="Dettmers 2015 (arXiv 1511.04561)",
    ),
)
