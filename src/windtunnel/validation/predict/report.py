"""What a validation run returns: one entry per (row, metric) and a summary per (kind, family, device, metric)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from windtunnel.errors import BadInput, GateFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOutcome:
    """One measured quantity next to the prediction."""

    id: str
    row_kind: str
    family: str
    device: str
    metric: str
    unit: str
    measured: float
    predicted: float | None
    interval: dict[str, Any] | None
    error: float | None
    """(predicted − measured)/measured; predicted − measured where 0 was measured."""
    grade: str
    assumed: tuple[tuple[str, str, str], ...]
    reason: str
    group: str = ""
    """(model, node type) of a training row: folds never split it. Like the fields below, not part of the JSON."""
    devices: int = 0
    tokens: float = 0.0
    """Tokens of a step."""
    flop_per_device: float = 0.0
    """Model FLOPs of a step on one device."""
    predicted_seconds: float = 0.0
    """Simulated step time, whatever the row's metric."""
    fits: bool | None = None
    """Whether the simulator thinks that the measured run fits its memory; every row with a step time did."""
    seq_len: int = 0
    plan: str = ""
    """Identity of the scenario without the software's release: the same plan measured twice shares it."""
    work: str = ""
    """Identity of the scenario without its plan: rows that share it differ in their plan alone."""

    def to_dict(self) -> dict[str, Any]:
        """The entry of `rows` in the JSON contract."""
        return {
            "id": self.id,
            "row_kind": self.row_kind,
            "family": self.family,
            "device": self.device,
            "metric": self.metric,
            "unit": self.unit,
            "measured": self.measured,
            "predicted": self.predicted,
            "interval": self.interval,
            "error": self.error,
            "grade": self.grade,
            "assumed": [{"field": f, "value": v, "why": w} for f, v, w in self.assumed],
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Errors of one (kind, family, device, metric). Fractions, not percent; null without a prediction."""

    row_kind: str
    family: str
    device: str
    metric: str
    n: int
    n_predicted: int
    mape: float | None
    median_ape: float | None
    bias: float | None
    coverage80: float | None
    """Share of measurements inside the 80 % interval."""
    mean_relative_width: float | None
    """Mean of (high − low)/predicted."""

    def to_dict(self) -> dict[str, Any]:
        """The entry of `summary` in the JSON contract."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


def relative_error(predicted: float, measured: float) -> float:
    """(predicted − measured)/measured, the plain difference where nothing was measured but 0."""
    return (predicted - measured) / measured if measured else predicted - measured


def summarise(rows: Iterable[RowOutcome]) -> tuple[Summary, ...]:
    """Errors by (kind, family, device, metric), in order of first appearance.

    Rows that measured one plan more than once (`RowOutcome.plan`) are all compared with the median of their family.
    """
    rows = list(rows)
    repeats: dict[tuple[str, str, str], list[float]] = {}
    for row in rows:
        if row.plan:
            repeats.setdefault((row.family, row.metric, row.plan), []).append(row.measured)
    groups: dict[tuple[str, str, str, str], list[RowOutcome]] = {}
    for row in rows:
        groups.setdefault((row.row_kind, row.family, row.device, row.metric), []).append(row)
    out = []
    for (kind, family, device, metric), members in groups.items():
        errors = np.array(
            [
                r.error if not r.plan else relative_error(r.predicted or 0.0, _median(repeats, r))
                for r in members
                if r.error is not None
            ],
            dtype=np.float64,
        )
        inside, widths = [], []
        for r in members:
            if r.interval is not None and r.predicted:
                inside.append(r.interval["low"] <= _median(repeats, r) <= r.interval["high"])
                widths.append((r.interval["high"] - r.interval["low"]) / abs(r.predicted))
        some = errors.size > 0
        out.append(
            Summary(
                row_kind=kind,
                family=family,
                device=device,
                metric=metric,
                n=len(members),
                n_predicted=int(errors.size),
                mape=float(np.mean(np.abs(errors))) if some else None,
                median_ape=float(np.median(np.abs(errors))) if some else None,
                bias=float(np.mean(errors)) if some else None,
                coverage80=float(np.mean(inside)) if inside else None,
                mean_relative_width=float(np.mean(widths)) if widths else None,
            )
        )
    return tuple(out)


def _median(repeats: dict[tuple[str, str, str], list[float]], row: RowOutcome) -> float:
    return float(np.median(repeats.get((row.family, row.metric, row.plan), [row.measured])))


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """The outcome of `validate`."""

    rows: tuple[RowOutcome, ...]
    summary: tuple[Summary, ...]
    scenarios: int = 0
    """Distinct scenarios simulated."""
    elapsed_s: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """`{"rows": [...], "summary": [...]}`, plain data for `--json`."""
        return {"rows": [r.to_dict() for r in self.rows], "summary": [s.to_dict() for s in self.summary]}

    def gate(self, limit: str) -> None:
        """Check every summary entry against `key=limit` (`mape=0.12`); `coverage80` is a floor, the others ceilings.

        Raises:
            BadInput: the limit cannot be read.
            GateFailed: some entry is beyond it; the message lists all of them.
        """
        key, _, text = limit.partition("=")
        known = ("mape", "median_ape", "bias", "coverage80", "mean_relative_width")
        try:
            bound = float(text)
        except ValueError:
            bound = math.nan
        if key not in known or math.isnan(bound):
            raise BadInput(f"--gate = {limit}: must be KEY=NUMBER with a key of {', '.join(known)}")
        failed = []
        for entry in self.summary:
            value = getattr(entry, key)
            if value is None:
                continue
            if value < bound if key == "coverage80" else abs(value) > bound:
                name = "/".join((entry.row_kind, entry.family, entry.device, entry.metric))
                failed.append(f"{name}: {key} = {value:.4f} is beyond {bound:g}")
        if failed:
            raise GateFailed("\n".join(failed))
