"""The predicted step time of a training row under other coefficients than the catalogue's."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

from windtunnel import catalog
from windtunnel.cost.coefficients import Coefficients, coefficients
from windtunnel.errors import BadInput
from windtunnel.training.predict import prepare
from windtunnel.training.simulate_step import simulate_step
from windtunnel.validation.rows.read_row import RowCase


def overrides_for(case: RowCase, values: dict[str, float], base: Coefficients | None = None) -> dict[str, Any]:
    """Coefficient overrides of one row: tables are merged entry by entry.

    Args:
        case: the row.
        values: coefficient → value.
        base: what holds for the rest; absent: the catalogue.
    """
    assert case.scenario is not None and case.scenario.training is not None
    out: dict[str, Any] = {}
    if base is None:
        cluster = catalog.resolve_cluster(case.scenario.cluster)
        base = coefficients(case.scenario.training.framework, cluster.device, cluster)
    else:
        out = {f.name: getattr(base, f.name) for f in fields(base)}
    for name, value in values.items():
        table, _, key = name.partition(".")
        if key:
            out[table] = {**out.get(table, getattr(base, table)), key: value}
        else:
            out[name] = value
    return out


def predict_with(case: RowCase, values: dict[str, float], base: Coefficients | None = None) -> float:
    """Predicted value of the row's first metric, NaN when the scenario is refused. Only time is simulated."""
    assert case.scenario is not None
    try:
        prepared, _ = prepare(case.scenario, coefficient_overrides=overrides_for(case, values, base))
    except BadInput:
        return math.nan
    return case.metrics[0].convert(simulate_step(prepared, memory=False))
