"""Published runs, row by row: what was measured, what is predicted, and whether the interval holds it.

The rows are `rows/measured/published-runs.json`; they judge and set no coefficient (`fit/priors.yaml`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import yaml

from windtunnel.training.uncertainty.comparable_runs import residuals
from windtunnel.validation.predict.report import RowOutcome
from windtunnel.validation.predict.validate import validate
from windtunnel.validation.rows.row_files import SHIPPED, load_rows
from windtunnel_lab.accuracy.tables import markdown, percent
from windtunnel_lab.fit.hierarchy import shipped_edges

_FILE = SHIPPED / "published-runs.json"
_REASONS = Path(__file__).parent / "text/published_runs.yaml"


@cache
def why_outside() -> dict[str, str]:
    """Run → why its prediction misses it, as far as its source tells."""
    data: dict[str, str] = yaml.safe_load(_REASONS.read_text("utf-8"))
    return data


@cache
def published_runs() -> tuple[RowOutcome, ...]:
    """Every published run, with the interval that it would have if its own family were not in the record."""
    edges = _edges_without_family(frozenset(row["id"] for row in load_rows(_FILE)))
    return tuple(_with_band(row, edges.get(row.id)) for row in validate(_FILE).rows)


def inside(run: RowOutcome) -> bool:
    """Whether the interval holds the published value."""
    return run.interval is not None and run.interval["low"] <= run.measured <= run.interval["high"]


def published_table(runs: Sequence[RowOutcome]) -> str:
    """One line a run: published and predicted value, interval, and why it lies outside where it does."""
    lines = []
    for run in runs:
        if run.predicted is None or run.interval is None or run.error is None:
            lines.append([run.id, f"{run.measured:.4g} {run.unit}", "–", "–", "–", run.reason])
            continue
        held = inside(run)
        band = f"{run.interval['low']:.4g} to {run.interval['high']:.4g}{'' if held else ', outside'}"
        cells = [f"{run.measured:.4g} {run.unit}", f"{run.predicted:.4g}", percent(run.error), band]
        lines.append([run.id, *cells, "" if held else why_outside().get(run.id, "not explained")])
    table = markdown(["run", "published", "predicted", "error", "80 % band", "why outside"], lines)
    return f"{sum(map(inside, runs))} of {len(runs)} published runs lie inside their bands.\n\n{table}"


def sources() -> str:
    """Where the runs stand, one line a source."""
    seen = dict.fromkeys(str(row["source"]) for row in load_rows(_FILE))
    return "\n".join(["Sources:", "", *(f"* {source}" for source in seen)])


def _edges_without_family(ids: frozenset[str]) -> dict[str, tuple[float, float]]:
    """Run → (low, high) of log(predicted / measured), its own family left out; none for runs without a residual."""
    judged = [r for r in residuals() if r.error("family") is not None and ids & set(r.ids)]
    edges = shipped_edges(residuals(), judged, [r.site for r in judged])
    return {
        name: (float(low), float(high))
        for r, (low, high) in zip(judged, edges, strict=True)
        for name in ids & set(r.ids)
    }


def _with_band(run: RowOutcome, edges: tuple[float, float] | None) -> RowOutcome:
    if edges is None or run.predicted is None or run.interval is None:
        return run
    low, high = edges if run.metric != "step_time" else (-edges[1], -edges[0])
    ends = {"low": run.predicted * math.exp(low), "high": run.predicted * math.exp(high)}
    return replace(run, interval=run.interval | ends)
