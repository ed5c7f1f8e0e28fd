"""Krum: the one gradient that is nearest to most others."""

from __future__ import annotations

from functools import partial
from typing import Any

from windtunnel.errors import BadInput, Problem
from windtunnel.learning.aggregators import AGGREGATORS, WRONG, Aggregate, AggregatorKind
from windtunnel.runs.gradient_aggregation import krum


def build(workers: int, knobs: dict[str, Any]) -> Aggregate:
    """2·wrong + 2 < workers, as its proof asks."""
    wrong = knobs["wrong"]
    if 2 * wrong + 2 >= workers:
        rule = f"Krum of {workers} workers tolerates at most {max(0, (workers - 3) // 2)} wrong gradients"
        raise BadInput(Problem("wrong", rule, wrong))
    return partial(krum, wrong=wrong)


AGGREGATORS.add(
    "krum",
    AggregatorKind(
        id="krum",
        summary="the one gradient that is nearest to most others",
        build=build,
        knobs={"wrong": WRONG},
        source="Blanchard et al. 2017 (arXiv 1703.02757)",
    ),
)
