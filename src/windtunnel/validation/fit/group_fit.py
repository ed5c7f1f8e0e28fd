"""Fit the coefficients of one piece of software on one level of devices, whole and with rows left out."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.validation.fit.configurations import Configuration, configurations
from windtunnel.validation.fit.training import FitResult, Parameter, fit, fold_of, log_residuals

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refits:
    """The fit of a group and its refits with configurations left out."""

    cases: list[Configuration]
    parameters: list[Parameter]
    keep: list[int]
    """Indices of the configurations that take part in the fit."""
    weights: Floats
    """Weight of every configuration; shape (cases,)."""
    whole: FitResult

    def refitted(self, chosen: list[int]) -> tuple[Values, Values]:
        """Values and standard errors from some of the configurations of the whole; without any, the priors."""
        if not chosen:
            return {p.name: p.prior for p in self.parameters}, {p.name: p.sigma for p in self.parameters}
        around = self.whole.at, self.whole.jacobian[[self.keep.index(i) for i in chosen]]
        cases = [self.cases[i].case for i in chosen]
        part = fit(cases, self.parameters, self.weights[chosen], iterations=4, around=around)
        return part.values, part.errors

    def fold_errors(self) -> dict[tuple[str, ...], float]:
        """Rows of a configuration → its error when its fold took no part in the fit."""
        folds: dict[tuple[str, ...], float] = {}
        fold = [fold_of(c.group) for c in self.cases]
        for k in sorted(set(fold)):
            out = [i for i in range(len(self.cases)) if fold[i] == k]
            part, _ = self.refitted([i for i in self.keep if fold[i] != k])
            for i, r in zip(out, log_residuals([self.cases[i].case for i in out], part), strict=True):
                folds[self.cases[i].ids] = math.expm1(float(r))
        return folds

    def without_each_device(self, group: dict[str, Any], devices: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Device → the entries fitted without its rows, where others are left."""
        without = {}
        for device in devices if len(devices) > 1 else ():
            rest = [i for i in self.keep if self.cases[i].device != device]
            if rest:
                without[device] = _entries(group, [self.cases[i] for i in rest], *self.refitted(rest))
        return without

    def unseen_errors(self, without: dict[str, dict[str, Any]]) -> list[float]:
        """Errors of every device's configurations under the fit without that device."""
        errors: list[float] = []
        for device, entries in without.items():
            unseen = {name: float(entry["value"]) for name, entry in entries.items()}
            own = [c.case for c in self.cases if c.device == device]
            errors += [math.expm1(float(r)) for r in log_residuals(own, unseen)]
        return errors


def calibrate_group(
    found: list[Configuration] | list[dict[str, Any]], group: dict[str, Any], defaults: dict[str, Any]
) -> GroupFit:
    """Fit one (software, level): whole, without each fold, without each of its devices.

    Args:
        found: configurations, or rows of JSON, of which those of the group's families are read.
        group: the group's entry in `priors.yaml`.
        defaults: bounds and prior width of each coefficient.
    """
    if found and isinstance(found[0], dict):  # a worker reads the rows itself: cases do not travel between processes
        wanted = [r for r in found if isinstance(r, dict) and r.get("family") in group["families"]]
        found = configurations(wanted)
    cases = members([c for c in found if isinstance(c, Configuration)], group)
    software, level = group["software"], group["level"]
    if not cases:
        return GroupFit(software=software, level=level, fitted={}, folds={}, text=f"{software} on {level}: no rows")
    parameters = _parameters(group, defaults)
    keep = _thin(cases, group.get("most_rows", {}))
    share = group.get("family_weight", {})
    weights = np.array([share.get(c.case.family, 1.0) * len(c.ids) for c in cases])
    whole = fit([cases[i].case for i in keep], parameters, weights[keep], iterations=4)
    refits = _Refits(cases=cases, parameters=parameters, keep=keep, weights=weights, whole=whole)
    by_device = bool(group.get("kind_of_device"))  # its rows' folds are those of the fits of their own generations
    folds = {} if by_device else refits.fold_errors()
    devices = tuple(sorted({c.device for c in cases}))
    without = refits.without_each_device(group, devices)
    judged = [*folds.values(), *(refits.unseen_errors(without) if by_device else ())]
    return GroupFit(
        software=software,
        level=level,
        fitted=_entries(group, cases, whole.values, whole.errors),
        folds=folds,
        without=without,
        devices=devices,
        text=_summary(refits, f"{software} on {level}", judged, by_device=by_device),
    )


def _summary(refits: _Refits, title: str, judged: list[float], *, by_device: bool) -> str:
    """One line on a group: rows, values, and the size of the errors of what was left out."""
    size = np.abs(judged)
    rows = sum(len(c.ids) for c in refits.cases)
    text = f"{title}: {rows} rows, {len(refits.cases)} configurations, {len(refits.keep)} in the fit; "
    text += ", ".join(f"{k} {v:.4g}" for k, v in refits.whole.values.items())
    how = "leaving out whole devices" if by_device else "out of fold"
    return text + f"; {how} mean {100 * size.mean():.2f} %, median {100 * np.median(size):.2f} %"
