"""The simplest rival: one constant TFLOP/s for a whole family on a device, judged on rows it has not seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.validation.predict.report import RowOutcome


def best_constant(flop: Floats, seconds: Floats) -> float:
    """FLOP/s that minimises the mean absolute relative error of `flop / constant` against `seconds`.

    The error is piecewise monotone between the rows' own rates, so the best constant is one of them.
    """
    candidates = np.unique(flop / seconds)
    errors = np.abs(flop[None, :] / candidates[:, None] / seconds[None, :] - 1).mean(axis=1)
    return float(candidates[int(np.argmin(errors))])


def constant_errors(rows: Sequence[RowOutcome]) -> Floats:
    """Relative errors of the best constant, each (model, node type) group predicted from the others.

    Empty if there is only one group. Rows must have been predicted, so that their model FLOPs are known; times of rate
    metrics follow from their ratio.
    """
    used = [r for r in rows if r.predicted and r.flop_per_device and r.row_kind == "training"]
    groups = sorted({r.group for r in used})
    if len(groups) < 2:
        return np.empty(0)
    flop = np.array([r.flop_per_device for r in used])
    seconds = np.array([measured_seconds(r) for r in used])
    member = np.array([groups.index(r.group) for r in used])
    errors = np.empty(len(used))
    for index in range(len(groups)):
        out = member == index
        errors[out] = flop[out] / best_constant(flop[~out], seconds[~out]) / seconds[out] - 1
    return errors


def measured_seconds(row: RowOutcome) -> float:
    """Step time that a row measured; a rate is turned by the conversion its prediction used."""
    if row.metric == "step_time" or not row.predicted:
        return row.measured
    return row.predicted_seconds * row.predicted / row.measured
