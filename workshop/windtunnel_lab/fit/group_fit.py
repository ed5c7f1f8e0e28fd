"""Fit the coefficients of one piece of software on one level of devices, whole and with rows left out."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.cost.coefficients import Coefficients
from windtunnel.cost.sites import SITE_COEFFICIENTS
from windtunnel_lab.fit.configurations import Configuration, configurations, laid_over
from windtunnel_lab.fit.training import FitResult, Parameter, fit, fold_of, log_residuals

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
    fabrics: tuple[str, ...] = ()
    """Families of the networks between nodes that its rows ran on, as `cost.sites.fabric_of` names them."""
    devices: tuple[str, ...] = ()
    text: str = ""


def parameters_of(group: dict[str, Any], defaults: dict[str, Any]) -> list[Parameter]:
    """Coefficients that a group of `priors.yaml` may move, with their priors and bounds."""
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


def thinned(cases: list[Configuration], limits: dict[str, int]) -> list[int]:
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


def weights_of(group: dict[str, Any], cases: Sequence[Configuration]) -> Floats:
    """Weight of every configuration in a group's fit, shape (cases,)."""
    share = group.get("family_weight", {})
    return np.array([share.get(c.case.family, 1.0) * len(c.ids) for c in cases])


def entries_of(group: dict[str, Any], cases: list[Configuration], values: Values, errors: Values) -> dict[str, Any]:
    """A level's section of a fitted file: value, standard error, rows and prior of every coefficient."""
    families = ", ".join(sorted({c.case.family for c in cases}))
    rows = sum(len(c.ids) for c in cases)
    return {
        name: {
            "value": float(f"{value:.4g}"),
            "relative_error": round(errors[name], 4),
            "grade": "fitted",
            "source": f"{rows} rows of {families}",
            "prior": float(group["fit"][name]),
            **({"site": group["site"]} if name in SITE_COEFFICIENTS else {}),
        }
        for name, value in values.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refits:
    """The fit of a group and its refits with configurations left out."""

    cases: list[Configuration]
    bases: list[Coefficients]
    """Coefficients below the fitted ones, one record a case."""
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
        bases = [self.bases[i] for i in chosen]
        part = fit(cases, self.parameters, self.weights[chosen], bases=bases, iterations=4, around=around)
        return part.values, part.errors

    def fold_errors(self) -> dict[tuple[str, ...], float]:
        """Rows of a configuration → its error when its fold took no part in the fit."""
        folds: dict[tuple[str, ...], float] = {}
        fold = [fold_of(c.group) for c in self.cases]
        for k in sorted(set(fold)):
            out = [i for i in range(len(self.cases)) if fold[i] == k]
            part, _ = self.refitted([i for i in self.keep if fold[i] != k])
            cases, bases = [self.cases[i].case for i in out], [self.bases[i] for i in out]
            for i, r in zip(out, log_residuals(cases, part, bases), strict=True):
                folds[self.cases[i].ids] = math.expm1(float(r))
        return folds


def calibrate_group(
    found: list[Configuration] | list[dict[str, Any]],
    group: dict[str, Any],
    defaults: dict[str, Any],
    below: Mapping[str, float] | None = None,
) -> GroupFit:
    """Fit one (software, level): whole, and without each fold.

    Args:
        found: configurations, or rows of JSON, of which those of the group's families are read.
        group: the group's entry in `priors.yaml`.
        defaults: bounds and prior width of each coefficient.
        below: fitted values of the kind of device, on which a generation's fit stands.
    """
    if found and isinstance(found[0], dict):  # a worker reads the rows itself: cases do not travel between processes
        wanted = [r for r in found if isinstance(r, dict) and r.get("family") in group["families"]]
        found = configurations(wanted)
    cases = members([c for c in found if isinstance(c, Configuration)], group)
    software, level = group["software"], group["level"]
    if not cases:
        return GroupFit(software=software, level=level, fitted={}, folds={}, text=f"{software} on {level}: no rows")
    parameters = parameters_of(group, defaults)
    keep = thinned(cases, group.get("most_rows", {}))
    weights = weights_of(group, cases)
    bases = [laid_over(c.without_fit(), below or {}) for c in cases]
    whole = fit([cases[i].case for i in keep], parameters, weights[keep], bases=[bases[i] for i in keep], iterations=4)
    refits = _Refits(cases=cases, bases=bases, parameters=parameters, keep=keep, weights=weights, whole=whole)
    folds = {} if group.get("kind_of_device") else refits.fold_errors()  # folds are those of its generations
    return GroupFit(
        software=software,
        level=level,
        fitted=entries_of(group, cases, whole.values, whole.errors),
        folds=folds,
        fabrics=fabrics_of(cases),
        devices=tuple(sorted({c.device for c in cases})),
        text=_summary(refits, f"{software} on {level}", list(folds.values())),
    )


def fabrics_of(cases: Sequence[Configuration]) -> tuple[str, ...]:
    """Families of the networks between nodes that configurations ran on; those that need none add none."""
    return tuple(sorted({c.where.fabric for c in cases} - {""}))


def _summary(refits: _Refits, title: str, judged: list[float]) -> str:
    """One line on a group: rows, values, and the size of the errors of what was left out."""
    rows = sum(len(c.ids) for c in refits.cases)
    text = f"{title}: {rows} rows, {len(refits.cases)} configurations, {len(refits.keep)} in the fit; "
    text += ", ".join(f"{k} {v:.4g}" for k, v in refits.whole.values.items())
    size = np.abs(judged)
    return (
        text
        if not judged
        else text + f"; out of fold mean {100 * size.mean():.2f} %, median {100 * np.median(size):.2f} %"
    )
