"""The mean without the largest and the smallest, entry by entry."""

from __future__ import annotations

from functools import partial
from typing import Any

from windtunnel.errors import BadInput, Problem
from windtunnel.learning.aggregators import AGGREGATORS, WRONG, Aggregate, AggregatorKind
from windtunnel.runs.gradient_aggregation import trimmed_mean


def build(workers: int, knobs: dict[str, Any]) -> Aggregate:
    """As many as may be wrong are cut on each side."""
    wrong = knobs["wrong"]
    if 2 * wrong >= workers:
        rule = f"a trimmed mean of {workers} workers tolerates at most {(workers - 1) // 2} wrong gradients"
        raise BadInput(Problem("wrong", rule, wrong))
    return partial(trimmed_mean, wrong=wrong)


AGGREGATORS.add(
    "trimmed_mean",
    AggregatorKind(
        id="trimmed_mean",
        summary="the mean without the largest and smallest, entry by entry",
        build=build,
        knobs={"wrong": WRONG},
        source="Yin et al. 2018 (arXiv 1803.01498), definition 2",
    ),
)
