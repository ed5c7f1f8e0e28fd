"""The flag mean: gradients projected onto the subspace that explains most of them, then averaged."""

from __future__ import annotations

from functools import partial
from typing import Any

from windtunnel.errors import BadInput, Problem
from windtunnel.learning.aggregators import AGGREGATORS, Aggregate, AggregatorKind
from windtunnel.runs.gradient_aggregation import flag_mean
from windtunnel.techniques.knobs import Knob


def build(workers: int, knobs: dict[str, Any]) -> Aggregate:
    """⌈(workers + 1)/2⌉ dimensions where none are stated, the paper's choice."""
    dimensions = knobs["dimensions"] or (workers + 2) // 2
    if dimensions > workers:
        raise BadInput(Problem("dimensions", f"must be at most the {workers} workers", dimensions))
    return partial(
        flag_mean,
        dimensions=dimensions,
        rounds=knobs["rounds"],
        power=0.25 if knobs["weights"] == "median" else 0.5,
        lengths=knobs["lengths"],
    )


AGGREGATORS.add(
    "flag",
    AggregatorKind(
        id="flag",
        summary="the mean inside the subspace that explains most gradients",
        build=build,
        knobs={
            "dimensions": Knob(0, 0, 100_000, "of the subspace; 0: half of the workers and one"),
            "rounds": Knob(4, 1, 1000, "of reweighting"),
            "weights": Knob(
                "median", choices=("median", "likelihood"), doc="of the flag median, or of the Beta(1, ½) likelihood"
            ),
            "lengths": Knob(
                "unit", choices=("unit", "median", "full"), doc="how long gradients count: unit as in the authors' code"
            ),
        },
        source="Almasi et al. 2023 (arXiv 2302.05865); the authors' code for weights and lengths",
    ),
)
