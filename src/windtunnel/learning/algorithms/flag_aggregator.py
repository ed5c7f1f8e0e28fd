"""The flag aggregator: gradients are projected onto the subspace that explains most workers, and averaged there.

Source: Almasi et al. 2023 (arXiv 2302.05865).
"""

from __future__ import annotations

from typing import Any

from windtunnel.learning.aggregators import AGGREGATORS
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms import _parts as parts
from windtunnel.learning.algorithms._aggregated import Aggregated, aggregator_of
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.job import Job


def build(job: Job, knobs: dict[str, Any]) -> Aggregated:
    """The aggregator `flag` with these knobs."""
    problems = parts.problems_of("flag-aggregator")
    rule = aggregator_of({"flag": knobs}, job, problems, "flag-aggregator")
    problems.raise_if_any()
    return Aggregated(job, aggregate=rule)


ALGORITHMS.add(
    "flag-aggregator",
    AlgorithmKind(
        id="flag-aggregator",
        summary="gradients averaged inside the subspace that explains most workers",
        build=build,
        knobs=AGGREGATORS.get("flag").knobs,
        family="fault-straggler",
        source="Almasi et al. 2023 (arXiv 2302.05865)",
        deviates="the code joins unit gradients (`lengths: unit`), the paper's equation full-length ones, which an "
        "opposite one ten times as long outweighs; the code's weights are the flag median's (`weights: median`)",
    ),
)
