"""Records of a law: coefficients, quantities that it takes, questions, estimates and answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Values = dict[str, Any]
"""Quantity → float, name, or tuple of floats."""
Z_80 = 1.2815515655446004
"""Standard errors on either side of an 80 % interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficient:
    """A printed coefficient."""

    value: float
    error: float = 0.0
    """One standard error, as printed or from our own fit; 0 where none is known."""
    rounding: float = 0.0
    """Half a unit of the last printed digit, where that is all that is known."""

    @property
    def spread(self) -> float:
        """Half the width of the coefficient's 80 % interval."""
        return Z_80 * self.error + self.rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """Something that a question takes."""

    doc: str
    unit: str = ""
    low: float = -math.inf
    high: float = math.inf
    """Range that the source states; beyond it the law extrapolates."""
    least: float = 0.0
    most: float = math.inf
    """What the quantity can be at all."""
    default: float | None = None
    choices: tuple[str, ...] = ()
    """Names, for a quantity that is not a number."""
    whole: bool = False
    many: bool = False
    """A list of numbers, written with commas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One thing that a law answers."""

    id: str
    summary: str
    needs: tuple[str, ...]
    """Quantities without which it cannot be asked."""
    may: tuple[str, ...] = ()
    """Quantities that have a default."""
    units: Mapping[str, str]
    """Figure of the answer → its unit, the first one first."""
    answer: Callable[[Values, Mapping[str, float]], Mapping[str, float]]
    """(quantities, coefficients) → figures; a figure is infinite where nothing reaches it."""
    unreachable: str = "no figure answers it"
    """What is said where the first figure is infinite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """One figure of an answer with its 80 % interval."""

    value: float
    low: float
    high: float
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a law answers."""

    law: str
    question: str
    given: Mapping[str, Any]
    values: Mapping[str, Estimate]
    grade: str
    """fitted, exact, theory or extrapolated."""
    outside: tuple[str, ...] = ()
    """What lies outside the range that the source states, a line each."""
    source: str = ""
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values for `--json`."""
        figures = {
            k: {"value": e.value, "low": _finite(e.low), "high": _finite(e.high), "unit": e.unit}
            for k, e in self.values.items()
        }
        return {
            "law": self.law,
            "question": self.question,
            "given": dict(self.given),
            "values": figures,
            "grade": self.grade,
            "outside": list(self.outside),
            "source": self.source,
            "notes": list(self.notes),
        }


def _finite(value: float) -> float | None:
    """JSON has no infinity."""
    return value if math.isfinite(value) else None
