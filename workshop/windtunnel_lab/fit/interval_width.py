"""How far each difference between two runs sets them apart: the distances that make intervals narrow and right.

Coordinate descent on the mean interval score (Winkler) of intervals around the residuals out of fold, each row's
(model, cluster) group left out of its own interval. The score is the width plus 2/(1 − level) times what is missed,
so neither a wide nor a lucky interval wins; a family of which too few rows are covered counts against a choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats
from windtunnel.training.uncertainty.comparable_runs import Residual
from windtunnel.training.uncertainty.plan_difference import Pairs, pairs_of, spread, weighted_band
from windtunnel.training.uncertainty.step_time_interval import LEVEL, Table, band, table_of

START = {
    "software": 1.0,
    "root": 1.0,
    "device": 1.0,
    "generation": 1.0,
    "vendor": 1.0,
    "mixture": 2.0,
    "across": 0.5,
    "precision": 1.0,
    "devices": 0.3,
    "seq_len": 0.3,
    "hidden": 0.5,
    "mbs": 0.3,
    "enough": 20.0,
}
_FACTORS = (0.4, 2.5)
_SETTINGS = (0.0, 0.4, 1.0, 2.0)
_LEVELS = (0.8, 0.79, 0.78, 0.77, 0.76, 0.81, 0.82, 0.83, 0.84)
_LARGE = 20
_WIDEST = 2.9
"""Most that the mean width should be over the mean error; the bar is 3."""
_FLOOR = 0.66
"""Least coverage that a family of that many configurations should have; the bar is 0.6."""


def bands(table: Table, apart: dict[str, float]) -> Floats:
    """(low, high) of log(predicted / measured) of each residual out of fold, its own group left out; shape (n, 2)."""
    out = np.zeros((len(table.members), 2))
    seen: dict[tuple[Any, ...], tuple[float, float]] = {}
    for i, r in enumerate(table.members):
        key = tuple(r.subject.columns()[:-1])
        if key not in seen:
            found = band(r.subject, table, "fold", apart)  # it leaves the (model, cluster) group out itself
            seen[key] = (found.low, found.high) if found else (0.0, 0.0)
        out[i] = seen[key]
    return out


def interval_scores(errors: Floats, edges: Floats, level: float = LEVEL) -> Floats:
    """Winkler's score of each band: width plus 2/(1 − level) times the distance outside."""
    low, high = edges[:, 0], edges[:, 1]
    missed = np.maximum(low - errors, 0.0) + np.maximum(errors - high, 0.0)
    scores: Floats = high - low + 2.0 / (1.0 - level) * missed
    return scores


def objective(table: Table, families: npt.NDArray[np.str_], apart: dict[str, float]) -> float:
    """Mean score over measurements, what coverage of large families lacks to `_FLOOR`, and width in excess."""
    edges = bands(table, apart)
    inside = (edges[:, 0] <= table.errors) & (table.errors <= edges[:, 1])
    lacking = 0.0
    for family in np.unique(families):
        own = families == family
        if own.sum() >= _LARGE:
            lacking += max(0.0, _FLOOR - float(np.average(inside[own], weights=table.measurements[own])))
    width = _width(table, edges)
    score = float(np.average(interval_scores(table.errors, edges), weights=table.measurements))
    return score + 0.6 * lacking + 0.1 * max(0.0, width - _WIDEST)


def best_distances(members: Sequence[Residual], rounds: int = 2) -> dict[str, float]:
    """Distances of the least objective out of fold."""
    table = table_of(members, "fold")
    families = np.array([r.family for r in table.members])
    at = dict(START)
    best = objective(table, families, at)
    for _ in range(rounds):
        before = dict(at)
        for name in START:
            for factor in _FACTORS:
                trial = {**at, name: at[name] * factor}
                score = objective(table, families, trial)
                if score < best * (1 - 1e-3):
                    best, at = score, trial
        if at == before:
            break
    at = {name: round(value, 4) for name, value in at.items()}
    at["settings"] = _best_settings(pairs_of(members), at)
    return at | {"level": min(_LEVELS, key=lambda level: _amiss(table, at | {"level": level}))}


def _best_settings(pairs: Pairs, apart: dict[str, float]) -> float:
    """Distance for each setting by which the number of differing settings differs: least score of paired intervals."""
    chosen = sampled(pairs)
    scores = {}
    for value in _SETTINGS:
        total = weight = 0.0
        for p, share in chosen:
            a, b = (pairs.table.members[int(side[p])].subject for side in (pairs.first, pairs.second))
            found = spread(a, b, pairs, {**apart, "settings": value})
            if found is not None:
                edges = np.array([weighted_band(found[0], found[1], found[2], LEVEL)])
                total += share * float(interval_scores(pairs.error[p : p + 1], edges)[0])
                weight += share
        scores[value] = total / weight if weight else 0.0
    return min(scores, key=lambda value: scores[value])


def sampled(pairs: Pairs, most: int = 16) -> list[tuple[int, float]]:
    """(pair, weight): at most so many of each group, drawn evenly; a group weighs 1."""
    out: list[tuple[int, float]] = []
    for group in np.unique(pairs.group):
        inside = np.flatnonzero(pairs.group == group)
        inside = inside[np.unique(np.linspace(0, len(inside) - 1, most).astype(int))]
        out += [(int(p), 1.0 / len(inside)) for p in inside]
    return out


def _width(table: Table, edges: Floats) -> float:
    """Mean relative width of the intervals over the mean error."""
    widths, errors = np.exp(-edges[:, 0]) - np.exp(-edges[:, 1]), np.abs(np.expm1(table.errors))
    return float((table.measurements * widths).sum() / (table.measurements * errors).sum())


def _amiss(table: Table, apart: dict[str, float]) -> float:
    """How far coverage is from the level that is stated, and width from what it may be."""
    edges = bands(table, apart)
    held = (edges[:, 0] <= table.errors) & (table.errors <= edges[:, 1])
    inside = float(np.average(held, weights=table.measurements))
    return abs(inside - LEVEL) + 0.5 * max(0.0, _width(table, edges) - _WIDEST)
