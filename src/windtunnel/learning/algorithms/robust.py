"""Data parallelism under a robust rule: median, trimmed mean, Krum or the flag mean in place of the mean.

Source: Blanchard et al. 2017 (arXiv 1703.02757); Yin et al. 2018 (arXiv 1803.01498).
"""

from __future__ import annotations

from typing import Any

from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms import _parts as parts
from windtunnel.learning.algorithms._aggregated import Aggregated, aggregator_of
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.job import Job
from windtunnel.techniques.knobs import Knob


def build(job: Job, knobs: dict[str, Any]) -> Aggregated:
    """The rule is refused where it does not tolerate as many wrong gradients as are stated."""
    problems = parts.problems_of("robust")
    rule = aggregator_of(knobs["aggregator"], job, problems)
    problems.raise_if_any()
    return Aggregated(job, aggregate=rule)


ALGORITHMS.add(
    "robust",
    AlgorithmKind(
        id="robust",
        summary="gradients joined by a rule that some wrong ones do not move far",
        build=build,
        knobs={"aggregator": Knob("median", doc="id of an aggregator, or {id: {knob: value}}")},
        family="fault-straggler",
        source="Yin et al. 2018 (arXiv 1803.01498)",
    ),
)
