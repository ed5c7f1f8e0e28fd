"""What is predicted of one metric of a row of outcomes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from windtunnel.specs.population import Grade
from windtunnel.validation.rows.outcome_rows import Measured

LEVEL = 0.8
"""Probability of the intervals: that of `coverage80` in the summary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What is stated of one metric."""

    value: float | None = None
    low: float = math.nan
    high: float = math.nan
    grade: Grade | Literal["analytic"] = "assumed"
    """`analytic`: counted from other figures of the row."""
    basis: str = ""
    """What the interval is of."""
    reason: str = ""
    """Why there is no value."""
    assumed: tuple[tuple[str, str, str], ...] = ()


INPUT = Prediction(reason="is what the prediction starts from")

Predict = Callable[[dict[str, Any], tuple[Measured, ...]], dict[str, Prediction]]
"""Predictions of a row by metric; metrics that are left out have no mechanism."""
