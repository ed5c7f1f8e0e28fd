"""A figure of quality with its interval, its confidence and where it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from windtunnel.specs.population import Grade

LEVEL = 0.9
"""Probability that an interval is meant to hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """Share of problems that end right."""

    mean: float
    low: float
    high: float
    """Ends of the interval at `level`."""
    grade: Grade
    why: str
    level: float = LEVEL

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "mean": self.mean,
            "interval": {"level": self.level, "low": self.low, "high": self.high},
            "grade": self.grade,
            "why": self.why,
        }
