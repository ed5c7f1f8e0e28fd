"""Errors of serving by set, engine, generation and kind of model, from the residuals that ship."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any

import numpy as np

from windtunnel.serving.results.measured_residuals import COLUMNS
from windtunnel_lab.accuracy.tables import markdown

_FILE = "catalog/residuals/serving.json"
Row = dict[str, Any]


def serving_residuals() -> list[Row]:
    """One entry a measured value."""
    path = resources.files("windtunnel") / _FILE
    if not path.is_file():
        return []
    return [dict(zip(COLUMNS, row, strict=True)) for row in json.loads(path.read_text("utf-8"))["rows"]]


def errors_table(rows: Sequence[Row], name: str, key: Callable[[Row], str]) -> str:
    """Markdown: mean, median and bias of out-of-sample errors in percent, next to in-sample ones."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((key(row), row["measure"]), []).append(row)
    lines = []
    for (own, measure), members in sorted(groups.items()):
        e = 100.0 * np.expm1(np.array([r["error"] for r in members]))
        known = 100.0 * np.expm1(np.array([r["error_in_sample"] for r in members]))
        cells = (np.abs(e).mean(), np.median(np.abs(e)), np.median(e), np.abs(known).mean(), np.median(np.abs(known)))
        lines.append([own, measure, str(len(members)), *(f"{c:.1f}" for c in cells)])
    header = [name, "measure", "values", "mean", "median", "bias", "in sample: mean", "median"]
    return markdown(header, lines, 2)


def serving_tables() -> str:
    """All tables of the section."""
    rows = serving_residuals()
    free = [r for r in rows if not r["cache_full"]]
    closed = [r for r in free if r["family"] == "aic_silicon_sample"]
    full = [r for r in rows if r["cache_full"]]

    def cell(row: Row) -> str:
        return f"{row['release']}, {row['generation']}, {row['kind']}"

    return "\n\n".join(
        [
            errors_table(free, "set", lambda r: f"{r['family']}, two pools" if r["form"] == "split" else r["family"]),
            "Fixed concurrency by engine, generation and kind of model:",
            errors_table(closed, "engine, generation, kind", cell),
            "Set apart: first tokens where the simulated cache is full, so that waiting depends on its size:",
            errors_table(full, "engine, generation, kind", cell),
        ]
    )
