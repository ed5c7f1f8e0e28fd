"""Out-of-sample residuals as data: what `training.uncertainty` compute their bands from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from windtunnel.training.uncertainty.comparable_runs import COLUMNS, WAYS, read_residual
from windtunnel.validation.fit.configurations import Configuration
from windtunnel.validation.fit.interval_width import best_distances


def table(found: Sequence[tuple[Configuration, dict[str, float]]]) -> dict[str, Any]:
    """Columns of the residual file, one entry per predicted configuration, sorted so that the file is reproducible.

    Args:
        found: configurations with way of leaving out → predicted / median of the measured − 1.
    """
    rows = [[*c.row, *(None if way not in errors else round(errors[way], 5) for way in WAYS)] for c, errors in found]
    rows.sort(key=str)
    apart = best_distances([read_residual(row) for row in rows])
    return {"columns": [*COLUMNS, "family", "ids", *(f"error_{way}" for way in WAYS)], "distances": apart, "rows": rows}


def lines(data: dict[str, Any]) -> str:
    """JSON with one row a line, so that differences are readable."""
    rows = ",\n".join(json.dumps(row) for row in data["rows"])
    head = {k: v for k, v in data.items() if k != "rows"}
    return json.dumps(head)[:-1] + ', "rows": [\n' + rows + "\n]}\n"
