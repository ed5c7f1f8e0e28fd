"""Measured configurations next to what was predicted of them when they took no part: what the accuracy page counts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.training.uncertainty.comparable_runs import Residual, distances, residuals
from windtunnel.training.uncertainty.step_time_interval import Table, table_of
from windtunnel.validation.predict.report import RowOutcome, ValidationReport
from windtunnel_lab.fit.hierarchy import WAYS, shipped_edges
from windtunnel_lab.fit.interval_width import bands, interval_scores

WORDS = {
    "fold": "its fold left out",
    "family": "its family left out",
    "device": "device left out",
    "software": "software left out",
}


@dataclass(frozen=True, slots=True)
class Judged:
    """One configuration, predicted without what `way` names, and the interval that it would have been given."""

    residual: Residual
    way: str
    error: float
    """Predicted over the median of the measured, minus one; of step time."""
    low: float
    high: float
    """Edges of the 80 % interval of log(predicted / measured)."""
    score: float
    """Winkler's score of the interval, in logarithms."""

    @property
    def inside(self) -> bool:
        """Whether the measurement lies in the interval."""
        return self.low <= float(np.log1p(self.error)) <= self.high

    @property
    def width(self) -> float:
        """(high − low) / predicted of the interval of step time."""
        return float(np.exp(-self.low) - np.exp(-self.high))


@cache
def _edges(way: str) -> tuple[Table, Floats]:
    table = table_of(residuals(), way)
    if way == "fold":
        return table, bands(table, distances())
    return table, shipped_edges(residuals(), table.members, [WAYS[way](r) for r in table.members])


def judged(way: str) -> tuple[Judged, ...]:
    """Every configuration with an error of that way."""
    table, edges = _edges(way)
    scores = interval_scores(table.errors, edges)
    return tuple(
        Judged(r, way, r.error(way) or 0.0, float(low), float(high), float(score))
        for r, (low, high), score in zip(table.members, edges, scores, strict=True)
    )


@cache
def out_of_sample() -> tuple[Judged, ...]:
    """Every configuration once: without its fold, or with its family left out where it set no coefficient."""
    folded = judged("fold")
    done = {j.residual.ids for j in folded}
    return folded + tuple(j for j in judged("family") if j.residual.ids not in done)


def constant_band(found: Iterable[Judged]) -> list[float]:
    """Score of one interval for all: the central 80 % of the residuals of other (model, cluster) groups."""
    members = list(found)
    errors = np.log1p([j.error for j in members])
    signatures = np.array([j.residual.subject.signature for j in members])
    out = []
    for error, own in zip(errors, signatures, strict=True):
        others = errors[signatures != own]
        if not others.size:
            out.append(float("nan"))
            continue
        edges = np.quantile(others, [0.1, 0.9])[None, :]
        out.append(float(interval_scores(np.array([error]), edges)[0]))
    return out


def out_of_fold(report: ValidationReport) -> tuple[RowOutcome, ...]:
    """Rows of a report with predictions of fits that they took no part in.

    Step times and rates of rows whose fold has a residual are replaced; rows without one took part in no fit, and keep
    the prediction of the shipped coefficients. A configuration that was measured more than once counts once, at the
    median, under its first row.
    """
    by_id = {i: j for j in out_of_sample() for i in j.residual.ids}
    present = {r.id for r in report.rows}
    out = []
    for row in report.rows:
        found = by_id.get(row.id)
        if row.row_kind != "training" or "memory" in row.metric or found is None or row.predicted is None:
            out.append(row)
            continue
        if row.id != next(i for i in found.residual.ids if i in present):
            continue
        faster = row.metric != "step_time"
        ratio = 1.0 / (1.0 + found.error) if faster else 1.0 + found.error
        same = [r.measured for r in report.rows if r.id in found.residual.ids and r.metric == row.metric]
        measured = float(np.median(same))
        predicted = measured * ratio
        seconds = row.predicted_seconds * (row.predicted / predicted if faster else predicted / row.predicted)
        edges = sorted(predicted * float(np.exp(x if faster else -x)) for x in (found.low, found.high))
        band = {"level": 0.8, "low": edges[0], "high": edges[1], "basis": found.way, "grade": row.grade}
        out.append(
            replace(
                row, measured=measured, predicted=predicted, error=ratio - 1.0, interval=band, predicted_seconds=seconds
            )
        )
    return tuple(out)
