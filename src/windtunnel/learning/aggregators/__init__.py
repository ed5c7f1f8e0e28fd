"""Rules that make one gradient of many, some of which may be wrong; one file each, found by id."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from windtunnel.arrays import Floats
from windtunnel.registry import Registry
from windtunnel.techniques.knobs import Knob

Aggregate = Callable[[Floats], Floats]
"""Gradients of all workers in double precision, shape (workers, entries) → one, shape (entries,).

The order of workers does not matter."""


@dataclass(frozen=True, slots=True)
class AggregatorKind:
    """A rule that a scenario can name."""

    id: str
    summary: str
    build: Callable[[int, dict[str, Any]], Aggregate]
    """(workers, knobs) → the rule. Raises `BadInput` where more are wrong than it tolerates."""
    knobs: dict[str, Knob] = field(default_factory=dict)
    source: str = ""


AGGREGATORS: Registry[AggregatorKind] = Registry(
    "aggregators", package="windtunnel.learning.aggregators", noun="aggregator"
)

WRONG = Knob(1, 0, 100_000, "gradients that may be wrong")
