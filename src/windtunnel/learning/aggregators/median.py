"""The median, entry by entry."""

from __future__ import annotations

from windtunnel.learning.aggregators import AGGREGATORS, AggregatorKind
from windtunnel.runs.gradient_aggregation import median

AGGREGATORS.add(
    "median",
    AggregatorKind(
        id="median",
        summary="the median, entry by entry",
        build=lambda workers, knobs: median,
        source="Yin et al. 2018 (arXiv 1803.01498), definition 1",
    ),
)
