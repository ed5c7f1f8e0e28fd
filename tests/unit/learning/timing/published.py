"""Published tables beside the repository, and how their bandwidths were printed."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FOLDER = next(
    (p / "shared/data/learning" for p in Path(__file__).parents if (p / "shared/data/learning").is_dir()), None
)
GRID_GBIT = np.logspace(-1, 3, 50)
STEP = math.log(GRID_GBIT[1] / GRID_GBIT[0])
"""Of the grid that published bandwidths lie on: 20.7 %."""
UTILISATIONS = (0.5, 0.8, 0.9, 0.95, 0.99)


def table(name: str) -> dict[str, Any]:
    """A table as a dictionary; the test is skipped where the tables are not beside the repository."""
    if FOLDER is None:
        pytest.skip(f"{name}.json: shared/data/learning is not beside the repository")
    return dict(json.loads((FOLDER / f"{name}.json").read_text()))


def rows(name: str) -> list[dict[str, Any]]:
    """Rows of a table, by column."""
    found = table(name)
    return [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]


def cells(row: dict[str, Any]) -> list[tuple[float, float]]:
    """(utilisation, printed Gbit/s) of a row."""
    return [(u, row[f"gbit_per_s_for_{round(100 * u)}_percent"]) for u in UTILISATIONS]


def grid_steps(gbit: float, printed: float) -> float:
    """Steps of the grid between a bandwidth and a printed one, in magnitude.

    Values are printed with one digit behind the point, rounded twice and halves either way (2.947 as 2.95 as 3.0, 1.151
    as 1.15 as 1.1), so 0.1 may be any of three points of the grid: the nearest counts.
    """
    points = [g for g in GRID_GBIT if abs(round(g, 2) - printed) < 0.05 + 1e-9]
    assert points, f"{printed} is no point of the grid"
    return min(abs(math.log(gbit / g)) / STEP for g in points)
