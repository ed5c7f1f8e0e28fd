"""What a published law is, and how it answers: range, interval, refusal."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from windtunnel.errors import BadInput, Problem
from windtunnel.laws.given import read
from windtunnel.laws.records import Z_80, Coefficient, Estimate, Prediction, Quantity, Question, Values

WIDER = 2.0
"""Intervals outside the stated range are wider by this factor, times one plus the decades outside (assumed)."""
EXTRAPOLATED = "extrapolated"


def _together(name: str, delta: float, coefficients: Mapping[str, float]) -> Mapping[str, float]:
    return dict(coefficients) | {name: coefficients[name] + delta}


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """A published law."""

    id: str
    title: str
    source: str
    """Paper, equation, table."""
    link: str
    confirmed: str
    """Where the coefficients were read, or that they are recalled and not confirmed."""
    valid: str
    """Range of validity in a line."""
    grade: str = "fitted"
    """fitted, exact (arithmetic on what is given) or theory."""
    quantities: Mapping[str, Quantity]
    questions: tuple[Question, ...]
    tables: Mapping[str, Mapping[str, Coefficient]] = field(default_factory=lambda: {"": {}})
    """Coefficients by the choices of `by`, joined with a slash; one table named "" where there are no choices."""
    by: tuple[str, ...] = ()
    residuals: Mapping[str, float] = field(default_factory=dict)
    """Figure → relative standard deviation of what was measured around the fit, where it is known."""
    moved: Callable[[str, float, Mapping[str, float]], Mapping[str, float]] = _together
    """Coefficients with one of them changed; a law whose coefficients were fitted together moves the others along."""
    notes: tuple[str, ...] = ()

    def predict(self, given: Mapping[str, Any], *, extrapolate: bool = False) -> Prediction:
        """The answer to the question that these quantities ask.

        Args:
            given: quantity → number, name or text as on the command line (`7B`, `1.4T`, `2e22`).
            extrapolate: answer outside the stated range too, with a wider interval and marked `extrapolated`.

        Raises:
            BadInput: a quantity is unknown, missing, not a number, impossible or outside the stated range.
        """
        question, values = read(self.id, self.quantities, self.questions, given)
        outside, decades = self._outside(values)
        if outside and not extrapolate:
            more = "; --extrapolate gives a wider answer"
            raise BadInput(Problem(name, rule + more, values[name]) for name, rule in outside.items())
        table = self.tables["/".join(str(values[one]) for one in self.by)]
        central = {name: one.value for name, one in table.items()}
        figures = _figures(question, values, central)
        if not all(map(math.isfinite, figures.values())):
            raise BadInput(Problem(self.id, f"{question.id} has no answer: {question.unreachable}", dict(given)))
        wider = WIDER * (1.0 + decades) if outside else 1.0
        ends = self._ends(question, values, table, figures)
        estimates = {
            name: Estimate(
                value=figures[name],
                low=figures[name] - wider * ends[name][0],
                high=figures[name] + wider * ends[name][1],
                unit=unit,
            )
            for name, unit in question.units.items()
        }
        return Prediction(
            law=self.id,
            question=question.id,
            given=values,
            values=estimates,
            grade=EXTRAPOLATED if outside else self.grade,
            outside=tuple(f"{name} {rule}" for name, rule in outside.items()),
            source=self.source,
            notes=self.notes,
        )

    def _outside(self, values: Values) -> tuple[dict[str, str], float]:
        """Quantities outside the stated range with the rule that they break, and how many decades outside in all."""
        rules, decades = dict[str, str](), 0.0
        for name, value in values.items():
            one = self.quantities[name]
            if not isinstance(value, float) or one.low <= value <= one.high:
                continue
            rules[name] = f"is outside {_span(one)} ({self.valid})"
            edge = one.low if value < one.low else one.high
            decades += abs(math.log10(value / edge)) if value > 0 and edge > 0 else 1.0
        return rules, decades

    def _ends(
        self, question: Question, values: Values, table: Mapping[str, Coefficient], figures: Mapping[str, float]
    ) -> dict[str, tuple[float, float]]:
        """How far each figure falls and rises.

        Coefficients go through their intervals one at a time; these and the residual of the fit add in quadrature.
        """
        central = {name: one.value for name, one in table.items()}
        ends = {name: [Z_80 * self.residuals.get(name, 0.0) * abs(figures[name])] * 2 for name in question.units}
        for name, one in table.items():
            if not one.spread:
                continue
            moves = [_figures(question, values, self.moved(name, sign * one.spread, central)) for sign in (-1.0, 1.0)]
            for figure in question.units:
                changes = [moved[figure] - figures[figure] for moved in moves]
                ends[figure][0] = math.hypot(ends[figure][0], max(0.0, -min(changes)))
                ends[figure][1] = math.hypot(ends[figure][1], max(0.0, *changes))
        return {name: (low, high) for name, (low, high) in ends.items()}


def _figures(question: Question, values: Values, coefficients: Mapping[str, float]) -> Mapping[str, float]:
    """The answer; infinite where its numbers are beyond floating point."""
    try:
        return question.answer(values, coefficients)
    except (ArithmeticError, ValueError):
        return dict.fromkeys(question.units, math.inf)


def _span(one: Quantity) -> str:
    unit = f" {one.unit}" if one.unit else ""
    if one.low == -math.inf:
        return f"at most {one.high:g}{unit}"
    if one.high == math.inf:
        return f"at least {one.low:g}{unit}"
    return f"{one.low:g} to {one.high:g}{unit}"
