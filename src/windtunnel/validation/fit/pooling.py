"""Partial pooling of fitted coefficients: what software and generations share, for pairs without rows.

The logarithm of fitted value over the value without any fit, in units of the coefficient's own prior width, is a sum of
normal effects (`cost.pooled`), one variance a kind for all coefficients together, and of the error of the fit. The
variances maximise the likelihood; effects are their posterior means given them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.cost.coefficient_files import lineage
from windtunnel.cost.coefficients import resolve
from windtunnel.cost.pooled import KINDS, keys
from windtunnel.errors import BadInput
from windtunnel.specs.device import DeviceSpec

_GRID = (0.0, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0, 1.3, 1.7, 2.2)
"""Candidate standard deviations of an effect, in units of the prior's."""
_IDENTIFIED = 0.8
"""A coefficient whose error is no smaller than this share of its prior's width was not set by its rows."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One fitted coefficient of one (software, generation)."""

    name: str
    root: str
    software: str
    generation: str
    ratio: float
    """log(fitted / without a fit), in prior widths."""
    error: float
    """Standard error of the fit, in prior widths."""


def place(level: str) -> tuple[str, str] | None:
    """(device id or empty, generation) of a level of a fitted file, None for a kind of device."""
    from windtunnel import catalog

    if level in get_args(DeviceSpec.model_fields["kind"].annotation):
        return None

    try:
        return level, catalog.device(level).generation
    except BadInput:
        return "", level


def observations(fitted: dict[str, dict[str, Any]], defaults: dict[str, Any]) -> list[Observation]:
    """Every coefficient that its rows identify, of every software and level.

    Args:
        fitted: software → level → coefficient → {value, relative_error}.
        defaults: coefficient → {sigma, low, high}, as in `priors.yaml`.
    """
    out = []
    for software, by_level in fitted.items():
        family = lineage(software)
        for level, section in by_level.items():
            at = place(level)
            if at is None:
                continue
            unseen = frozenset((name, one) for name in family for one in at)
            base = resolve(software, *at, without=unseen, pooled={})
            for name, entry in section.items():
                sigma = float(defaults[name]["sigma"])
                key, _, part = name.partition(".")
                plain = getattr(base, key)[part] if part else getattr(base, key)
                if plain > 0 and entry["relative_error"] < _IDENTIFIED * sigma:
                    ratio, error = math.log(entry["value"] / plain) / sigma, entry["relative_error"] / sigma
                    out.append(Observation(name, family[-1], software, at[1], ratio, error))
    return out


def pool(
    seen: Sequence[Observation], defaults: dict[str, Any], scales: dict[str, float] | None = None
) -> tuple[dict[str, Any], dict[str, float]]:
    """Effects by coefficient, natural logarithms, and the standard deviation of each kind of effect.

    Args:
        seen: fitted coefficients.
        defaults: coefficient → {sigma, low, high}.
        scales: standard deviations by kind in prior widths; absent: those of the greatest likelihood.
    """
    names = sorted({o.name for o in seen})
    groups = {name: [o for o in seen if o.name == name] for name in names}
    parts = {name: (_shared(members), np.array([o.ratio for o in members])) for name, members in groups.items()}
    chosen = dict(scales) if scales else _likeliest(groups, parts)
    out: dict[str, Any] = {}
    for name, (shared, y) in parts.items():
        members, sigma = groups[name], float(defaults[name]["sigma"])
        weights = np.linalg.solve(_covariance(shared, members, chosen), y)
        entry: dict[str, Any] = {}
        for kind in KINDS:
            if chosen[kind] > 0.0:
                effects: dict[str, float] = {}
                for o, w in zip(members, weights, strict=True):
                    own = keys(o.root, o.software, o.generation)[kind]
                    effects[own] = effects.get(own, 0.0) + chosen[kind] ** 2 * float(w) * sigma
                entry[kind] = {k: round(v, 4) for k, v in sorted(effects.items())}
        out[name] = entry | {
            "low": float(defaults[name]["low"]),
            "high": float(defaults[name]["high"]),
            "set_by": len(members),
        }
    return out, chosen


def _shared(members: Sequence[Observation]) -> dict[str, Floats]:
    """Per kind, whether two observations share the effect; shape (n, n)."""
    own = [keys(o.root, o.software, o.generation) for o in members]
    return {kind: np.array([[float(a[kind] == b[kind]) for b in own] for a in own]) for kind in KINDS}


def _likeliest(
    groups: dict[str, list[Observation]], parts: dict[str, tuple[dict[str, Floats], Floats]]
) -> dict[str, float]:
    """Coordinate ascent over the grid, from the middle."""
    at = {kind: 0.3 for kind in (*KINDS, "pair")}

    def likelihood(scales: dict[str, float]) -> float:
        return sum(_log_likelihood(_covariance(shared, groups[name], scales), y) for name, (shared, y) in parts.items())

    best = likelihood(at)
    for _ in range(6):
        before = dict(at)
        for kind in at:
            for value in _GRID[1:] if kind == "pair" else _GRID:
                trial = at | {kind: value}
                found = likelihood(trial)
                if found > best + 1e-9:
                    best, at = found, trial
        if at == before:
            break
    return at


def _covariance(shared: dict[str, Floats], members: Sequence[Observation], scales: dict[str, float]) -> Floats:
    noise = np.array([o.error for o in members]) ** 2
    out: Floats = np.diag(scales["pair"] ** 2 + noise)
    for kind in KINDS:
        out = out + scales[kind] ** 2 * shared[kind]
    return out


def _log_likelihood(covariance: Floats, y: Floats) -> float:
    lower = np.linalg.cholesky(covariance)
    z = np.linalg.solve(lower, y)
    return float(-0.5 * (z @ z) - np.log(np.diag(lower)).sum())
