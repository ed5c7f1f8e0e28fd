"""Fit the coefficients of one piece of software on one level of devices, whole and with rows left out."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from windtunnel.validation.fit.configurations import Configuration, configurations
from windtunnel.validation.fit.training import Parameter, fit, fold_of, log_residuals

Values = dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFit:
    """One (software, level) of `priors.yaml`, fitted."""

    software: str
    level: str
    fitted: dict[str, Any]
    """Coefficient → {value, relative_error, grade, source, prior}."""
    folds: dict[tuple[str, ...], float]
    """Rows of a configuration → error without its fold."""
    without: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Device → the fit without its rows; devices whose absence leaves nothing have no entry."""
    devices: tuple[str, ...] = ()
    text: str = ""


def _parameters(group: dict[str, Any], defaults: dict[str, Any]) -> list[Parameter]:
    out = []
    for name, prior in group["fit"].items():
        d = defaults[name]
        sigma = group.get("sigma", {}).get(name, d["sigma"])
        out.append(Parameter(name, float(prior), float(sigma), float(d["low"]), float(d["high"])))
    return out


def members(found: list[Configuration], group: dict[str, Any]) -> list[Configuration]:
    """Configurations that a group fits: those of its families on its level whose device has no fit of its own."""
    return [
        c
        for c in found
        if c.case.family in group["families"]
        and c.software == group["software"]
        and group["level"] in (c.device, c.generation, c.kind)
        and (group["level"] != c.generation or c.device not in group.get("apart", ()))
    ]


def _thin(cases: list[Configuration], limits: dict[str, int]) -> list[int]:
    """Indices that take part in the fit: every n-th of families with more configurations than the limit."""
    seen: dict[str, int] = defaultdict(int)
    total: dict[str, int] = defaultdict(int)
    for c in cases:
        total[c.case.family] += 1
    keep = []
    for i, c in enumerate(cases):
        family = c.case.family
        step = max(1, -(-total[family] // limits.get(family, 10**9)))
        if seen[family] % step == 0:
            keep.append(i)
        seen[family] += 1
    return keep


def _entries(group: dict[str, Any], cases: list[Configuration], values: Values, errors: Values) -> dict[str, Any]:
    families = ", ".join(sorted({c.case.family for c in cases}))
    rows = sum(len(c.ids) for c in cases)
    return {
        name: {
            "value": float(f"{value:.4g}"),
            "relative_error": round(errors[name], 4),
            "grade": "fitted",
            "source": f"{rows} rows of {families}",
            "prior": float(group["fit"][name]),
        }
        for name, value in values.items()
    }


def calibrate_group(
    found: list[Configuration] | list[dict[str, Any]], group: dict[str, Any], defaults: dict[str, Any]
) -> GroupFit:
    """Fit one (software, level): whole, without each fold, without each of its devices."""
    if found and isinstance(found[0], dict):  # a worker reads the rows itself: cases do not travel between processes
        wanted = [r for r in found if isinstance(r, dict) and r.get("family") in group["families"]]
        found = configurations(wanted)
    cases = members([c for c in found if isinstance(c, Configuration)], group)
    software, level = group["software"], group["level"]
    title = f"{software} on {level}"
    if not cases:
        return GroupFit(software=software, level=level, fitted={}, folds={}, text=f"{title}: no rows")
    parameters = _parameters(group, defaults)
    keep = _thin(cases, group.get("most_rows", {}))
    share = group.get("family_weight", {})
    weights = np.array([share.get(c.case.family, 1.0) * len(c.ids) for c in cases])

    whole = fit([cases[i].case for i in keep], parameters, weights[keep], iterations=4)
    values, errors = whole.values, whole.errors

    def refitted(chosen: list[int]) -> tuple[Values, Values]:
        """The fit of some of the rows of the whole."""
        if not chosen:
            return {p.name: p.prior for p in parameters}, {p.name: p.sigma for p in parameters}
        around = whole.at, whole.jacobian[[keep.index(i) for i in chosen]]
        part = fit([cases[i].case for i in chosen], parameters, weights[chosen], iterations=4, around=around)
        return part.values, part.errors

    folds: dict[tuple[str, ...], float] = {}
    by_kind = bool(group.get("kind_of_device"))  # its rows' folds are those of the fits of their own generations
    of = [fold_of(c.group) for c in cases]
    for k in () if by_kind else sorted(set(of)):
        out = [i for i in range(len(cases)) if of[i] == k]
        part, _ = refitted([i for i in keep if of[i] != k])
        for i, r in zip(out, log_residuals([cases[i].case for i in out], part), strict=True):
            folds[cases[i].ids] = math.expm1(float(r))
    devices = tuple(sorted({c.device for c in cases}))
    without = {}
    for device in devices if len(devices) > 1 else ():
        rest = [i for i in keep if cases[i].device != device]
        if rest:
            without[device] = _entries(group, [cases[i] for i in rest], *refitted(rest))
    judged = list(folds.values())
    for device in without if by_kind else ():
        unseen = {name: float(entry["value"]) for name, entry in without[device].items()}
        judged += [math.expm1(float(r)) for r in log_residuals([c.case for c in cases if c.device == device], unseen)]
    size = np.abs(judged)
    rows = sum(len(c.ids) for c in cases)
    text = f"{title}: {rows} rows, {len(cases)} configurations, {len(keep)} in the fit; "
    text += ", ".join(f"{k} {v:.4g}" for k, v in values.items())
    how = "leaving out whole devices" if by_kind else "out of fold"
    text += f"; {how} mean {100 * size.mean():.2f} %, median {100 * np.median(size):.2f} %"
    return GroupFit(
        software=software,
        level=level,
        fitted=_entries(group, cases, values, errors),
        folds=folds,
        without=without,
        devices=devices,
        text=text,
    )
