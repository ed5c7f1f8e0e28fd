"""The mean of all workers; one wrong gradient moves it anywhere."""

from __future__ import annotations

from windtunnel.learning.aggregators import AGGREGATORS, AggregatorKind
from windtunnel.runs.gradient_aggregation import mean

AGGREGATORS.add("mean", AggregatorKind(id="mean", summary="the mean of all workers", build=lambda workers, knobs: mean))
