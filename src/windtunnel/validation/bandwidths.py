"""How far each difference between two runs sets them apart: the distances that make bands narrow and right.

Coordinate descent on the mean interval score (Winkler) of bands around the residuals out of fold, each row's (model,
cluster) group left out of its own band. The score is the width plus 2/(1 − level) times what is missed, so neither a
wide nor a lucky band wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from windtunnel.training.comparable import Residual
from windtunnel.training.interval import LEVEL, Table, band, table_of

Floats = npt.NDArray[np.float64]
START = {
    "software": 1.0, "root": 1.0, "device": 1.0, "generation": 1.0, "vendor": 1.0, "mixture": 2.0, "precision": 1.0,
    "devices": 0.3, "seq_len": 0.3, "hidden": 0.5, "mbs": 0.3,
}  # fmt: skip
_FACTORS = (0.4, 2.5)


def bands(table: Table, way: str, apart: dict[str, float]) -> Floats:
    """(low, high) of log(predicted / measured) of each residual, its own group left out; shape (n, 2)."""
    out = np.zeros((len(table.members), 2))
    seen: dict[tuple[Any, ...], tuple[float, float]] = {}
    for i, r in enumerate(table.members):
        key = tuple(r.subject.columns()[:-1])
        if key not in seen:
            found = band(r.subject, without_unit(table, way, i), way, apart)
            seen[key] = (found.low, found.high) if found else (0.0, 0.0)
        out[i] = seen[key]
    return out


def without_unit(table: Table, way: str, index: int) -> Table:
    """The residuals that may speak for one of them: of other units, where units are what is left out."""
    if way == "fold":
        return table  # `band` leaves the (model, cluster) group out itself
    own = table.unit[index]
    return table_of([r for r, u in zip(table.members, table.unit, strict=True) if u != own], way)


def interval_scores(errors: Floats, edges: Floats, level: float = LEVEL) -> Floats:
    """Winkler's score of each band: width plus 2/(1 − level) times the distance outside."""
    low, high = edges[:, 0], edges[:, 1]
    missed = np.maximum(low - errors, 0.0) + np.maximum(errors - high, 0.0)
    scores: Floats = high - low + 2.0 / (1.0 - level) * missed
    return scores


def best_distances(members: Sequence[Residual], rounds: int = 2) -> dict[str, float]:
    """Distances of the least mean score out of fold."""
    table = table_of(members, "fold")
    at = dict(START)
    best = float(interval_scores(table.errors, bands(table, "fold", at)).mean())
    for _ in range(rounds):
        before = dict(at)
        for name in START:
            for factor in _FACTORS:
                trial = {**at, name: at[name] * factor}
                score = float(interval_scores(table.errors, bands(table, "fold", trial)).mean())
                if score < best * (1 - 1e-3):
                    best, at = score, trial
        if at == before:
            break
    return {name: round(value, 4) for name, value in at.items()}
