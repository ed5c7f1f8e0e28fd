"""Predict rows of outcomes. Reasoning is predicted from a stated part of each row; others say why they are not."""

from __future__ import annotations

from typing import Any

from windtunnel.validation.predict.prediction import LEVEL, Prediction
from windtunnel.validation.predict.reasoning import PREDICT, REASONS
from windtunnel.validation.predict.report import RowOutcome, relative_error
from windtunnel.validation.rows.outcome_rows import Measured, family_of, measured, outcome_kind

_NO_NUMBER = "the row has no number to compare with"


def outcomes(row: dict[str, Any], device: str) -> list[RowOutcome]:
    """One entry for each number of a row. Never raises."""
    kind = outcome_kind(row) or ""
    numbers = measured(row) or (Measured("none", "", None),)
    fallback = REASONS.get(kind) or REASONS.get(kind.partition("_")[0] + "_") or REASONS["data_"]
    found: dict[str, Prediction] = {}
    if kind in PREDICT:
        try:
            found = PREDICT[kind](row, numbers)
        except Exception as error:  # our own bug or a damaged row: every other row still gets its answer
            fallback = f"could not be predicted: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return [_outcome(row, kind, device, number, found.get(number.metric), fallback) for number in numbers]


def _outcome(
    row: dict[str, Any], kind: str, device: str, number: Measured, found: Prediction | None, fallback: str
) -> RowOutcome:
    told = found if found is not None else Prediction(reason=fallback)
    if number.value is None:
        told = Prediction(reason=told.reason if number.metric == "none" else _NO_NUMBER)
    value = told.value
    return RowOutcome(
        id=str(row.get("id") or ""),
        row_kind=kind,
        family=family_of(row),
        device=device,
        metric=number.metric,
        unit=number.unit,
        measured=0.0 if number.value is None else number.value,
        predicted=value,
        interval=None
        if value is None
        else {"level": LEVEL, "low": told.low, "high": told.high, "basis": told.basis, "grade": told.grade},
        error=None if value is None or number.value is None else relative_error(value, number.value),
        grade=told.grade,
        assumed=told.assumed,
        reason=told.reason,
    )
