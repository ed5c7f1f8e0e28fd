"""Rows predicted as if their family, their device or their software had never been measured.

Everything that the unit's rows set is fitted anew without them: the fits of `priors.yaml` that lose rows, and the
effects that software and generations share (`shared_effects`). A family is one site with its software; every row of
the same measured configuration leaves with it, whatever its label. Rows that judge (`priors.yaml`) set nothing ever.
"""

from __future__ import annotations

import json
import math
import multiprocessing
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from windtunnel.cost.coefficient_files import coefficient_file, levels_of
from windtunnel.cost.coefficients import Coefficients, resolve, with_pooled
from windtunnel.cost.sites import FABRIC_COEFFICIENTS, held
from windtunnel.stacks.stack_files import lineage
from windtunnel.training.predict import prepare
from windtunnel.training.simulate_step import memory_of, step_time
from windtunnel.validation.predict.assumed_terms import half_widths, terms_of_row
from windtunnel_lab.fit.configurations import Configuration, configurations, laid_over, measured_as, site_names
from windtunnel_lab.fit.derivatives import Derivatives, derivatives
from windtunnel_lab.fit.group_fit import entries_of, fabrics_of, members, parameters_of, thinned, weights_of
from windtunnel_lab.fit.shared_effects import SharedFit, shared_names
from windtunnel_lab.fit.training import fit, log_residuals

Errors = dict[tuple[str, ...], dict[str, float]]
"""Rows of a configuration → way of leaving out → predicted / measured − 1."""


@dataclass(frozen=True, slots=True)
class GroupWithout:
    """A group of `priors.yaml`, fitted to the rows that are left."""

    entries: dict[str, Any]
    fabrics: frozenset[str]
    refitted: bool = False
    """Whether it lost rows, or the fit that it stands on did."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """Every configuration that is known, with what a refit without some of them needs."""

    found: list[Configuration]
    derivatives: Derivatives
    spec: dict[str, Any]
    """`priors.yaml`."""

    @cached_property
    def setting(self) -> frozenset[int]:
        """Indices of the configurations that may set a coefficient."""
        judges = self.spec["judges"]
        return frozenset(
            i
            for i, c in enumerate(self.found)
            if c.case.family not in judges["families"] and not set(c.ids) & set(judges["rows"])
        )

    @cached_property
    def shared(self) -> SharedFit:
        """The regression that all sites take part in."""
        names = site_names(self.spec["sites"])
        return SharedFit(found=self.found, derivatives=self.derivatives, defaults=self.spec["defaults"], site_of=names)

    @cached_property
    def measured(self) -> frozenset[str]:
        """Software with rows that set coefficients."""
        return frozenset(self.found[i].software for i in self.setting)

    def predictions_without(self, gone: Collection[int], judged: Collection[int]) -> dict[int, float]:
        """Index → predicted / measured − 1, after the configurations `gone` have left the record.

        Args:
            gone: configurations that leave.
            judged: configurations to predict.
        """
        rest = sorted(self.setting - set(gone))
        fits = self._fits(frozenset(rest))
        left = {self.found[i].software for i in rest}
        unseen = frozenset(self.measured - left)
        effects = self.shared.effects(rest, unseen)
        out = {}
        for i in judged:
            c = self.found[i]
            base, values = unseen_coefficients(c, fits, effects, unseen)
            out[i] = math.expm1(float(log_residuals([c.case], values, [base])[0]))
        return out

    def _fits(self, rest: frozenset[int]) -> dict[tuple[str, str], GroupWithout]:
        """(software, level) → fit to the configurations that are left; what ships where none left."""
        out: dict[tuple[str, str], GroupWithout] = {}
        for group in self.spec["groups"]:
            own = {id(self.found[i]): i for i in self.setting}
            whole = [own[id(c)] for c in members([self.found[i] for i in sorted(self.setting)], group)]
            kept = [i for i in whole if i in rest]
            if not kept:
                continue
            software, level = group["software"], group["level"]
            shipped = (coefficient_file(f"fitted/{software}").get("coefficients") or {}).get(level, {})
            below = out.get((software, group["kind"]))
            entries = shipped
            if len(kept) < len(whole) or (below and below.refitted):
                entries = self._refitted(group, kept, shipped, below)
            fabrics = frozenset(fabrics_of([self.found[i] for i in kept]))
            out[software, level] = GroupWithout(entries, fabrics, refitted=entries is not shipped)
        return out

    def _refitted(
        self, group: dict[str, Any], kept: list[int], shipped: dict[str, Any], below: GroupWithout | None
    ) -> dict[str, Any]:
        under = {name: float(entry["value"]) for name, entry in below.entries.items()} if below else {}
        cases = [self.found[i] for i in kept]
        chosen = thinned(cases, group.get("most_rows", {}))
        parameters = parameters_of(group, self.spec["defaults"])
        at = np.array([math.log(shipped[p.name]["value"] if p.name in shipped else p.prior) for p in parameters])
        columns = [self.derivatives.names.index(p.name) for p in parameters]
        slopes = self.derivatives.slopes[np.ix_([kept[k] for k in chosen], columns)]
        part = fit(
            [cases[k].case for k in chosen],
            parameters,
            weights_of(group, cases)[chosen],
            bases=[laid_over(cases[k].without_fit(), under) for k in chosen],
            iterations=4,
            around=(at, slopes),
        )
        return entries_of(group, cases, part.values, part.errors)


def unseen_coefficients(
    c: Configuration,
    fits: dict[tuple[str, str], GroupWithout],
    effects: dict[str, Any],
    unseen: frozenset[str] = frozenset(),
) -> tuple[Coefficients, dict[str, float]]:
    """(coefficients, fitted values on top) that the catalogue would use for a run with these fits alone.

    Args:
        c: the run.
        fits: (software, level) → what is fitted.
        effects: what software and generations share.
        unseen: software without any row.
    """
    levels = levels_of(c.kind, c.generation, c.device)
    groups = next(
        (own for name in lineage(c.software)[:2] if (own := [fits[name, at] for at in levels if (name, at) in fits])),
        [],
    )
    if not groups:
        gone = c.software in unseen
        return resolve(
            c.software, c.device, c.generation, c.kind, where=c.where, fits=False, unseen=gone, pooled=effects
        ), {}
    values: dict[str, float] = {}
    away: frozenset[str] = frozenset()
    for group in groups:
        kept, elsewhere = held(group.entries, c.where, group.fabrics)
        values |= {name: float(entry["value"]) for name, entry in kept.items()}
        away |= elsewhere
    abroad = {name: effects[name] for name in away & FABRIC_COEFFICIENTS & set(effects)}
    base = with_pooled(c.without_fit(), abroad, c.software, c.generation)
    if "multi_node_skew" in away:  # as `cost.coefficients.resolve` has it away from a site
        values["multi_node_skew"] = base.collective_skew_s / values["collective_skew_s"]
    return base, values


def units(
    found: Sequence[Configuration], way: str, sites: Sequence[Sequence[str]]
) -> list[tuple[str, set[int], set[int]]]:
    """(name, configurations that leave, configurations that are predicted) of every unit of one way of leaving out.

    Args:
        found: configurations.
        way: family, device, software or release (of those that state one).
        sites: families that share a site.
    """
    together = site_names(sites)
    name_of: dict[str, Callable[[Configuration], str]] = {
        "family": lambda c: together.get(c.case.family, c.case.family),
        "device": lambda c: c.device,
        "software": lambda c: c.software,
        "release": lambda c: c.release,
    }
    own: dict[str, set[int]] = {}
    for i, c in enumerate(found):
        if name := name_of[way](c):
            own.setdefault(name, set()).add(i)
    out = []
    for name, inside in sorted(own.items()):
        same = {measured_as(found[i]) for i in inside} if way == "family" else set()
        gone = inside | {i for i, c in enumerate(found) if measured_as(c) in same}
        out.append((name, gone, inside))
    return out


def read_spec() -> dict[str, Any]:
    """`priors.yaml`."""
    import yaml

    spec: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("priors.yaml").read_text("utf-8"))
    for group in spec["groups"]:  # a device with a fit of its own takes no part in its generation's
        group["kind"] = next((o["level"] for o in spec["groups"] if _kind_below(o, group)), "")
        group["apart"] = [o["level"] for o in spec["groups"] if o["software"] == group["software"] and o is not group]
    return spec


def _kind_below(kind: dict[str, Any], group: dict[str, Any]) -> bool:
    """Whether a group is the kind of device on which another group's fit stands."""
    return (
        bool(kind.get("kind_of_device"))
        and kind is not group
        and kind["software"] == group["software"]
        and (group["level"].startswith(kind["level"]))
    )


def record_of(rows: list[dict[str, Any]], found: Derivatives | None = None) -> Record:
    """The record of measured rows; derivatives are taken where none are given."""
    spec = read_spec()
    taken = derivatives(rows, [*shared_names(spec["defaults"]), *_site_names(spec)]) if found is None else found
    return Record(found=configurations(rows), derivatives=taken, spec=spec)


def _site_names(spec: dict[str, Any]) -> list[str]:
    return [name for name in spec["defaults"] if name not in shared_names(spec["defaults"])]


def errors_without(record: Record, way: str, unit: tuple[str, set[int], set[int]]) -> Errors:
    """Errors of the configurations of one unit, as `units` names it, after what it names has left the record."""
    _, gone, judged = unit
    return {record.found[i].ids: {way: error} for i, error in record.predictions_without(gone, judged).items()}


def assumed_of(
    rows: list[dict[str, Any]], half: tuple[int, int] = (0, 1)
) -> dict[tuple[str, ...], tuple[float, float]]:
    """Rows of a configuration → what its assumed settings add to its interval, where they add anything.

    Args:
        rows: measured rows.
        half: (which, of how many) configurations this process takes.
    """
    out = {}
    for c in configurations(rows)[half[0] :: half[1]]:
        scenario = c.case.scenario
        if not c.case.assumed_fields or scenario is None:
            continue
        prepared, _ = prepare(scenario)
        fits = memory_of(prepared).fits
        terms = terms_of_row(prepared, scenario, step_time(prepared), c.case.assumed_fields, memory_fits=fits)
        if terms:
            shorter, longer = half_widths(terms)
            out[c.ids] = round(shorter, 4), round(longer, 4)
    return out


def all_assumed_of(rows: list[dict[str, Any]], workers: int = 2) -> dict[tuple[str, ...], tuple[float, float]]:
    """`assumed_of`, on several processes."""
    with ProcessPoolExecutor(workers) as executor:
        jobs = [executor.submit(assumed_of, rows, (k, workers)) for k in range(workers)]
        return {ids: widths for job in jobs for ids, widths in job.result().items()}


_RECORD: list[Record] = []
"""The record of this process, where it works for `all_errors_without`."""


def _take(rows: list[dict[str, Any]], taken: Derivatives, given: list[Record]) -> None:
    """Begin a process: with its parent's record where memory is shared, else with one of its own."""
    _RECORD[:] = given or [record_of(rows, taken)]


def _unit_errors(way: str, at: int) -> Errors:
    record = _RECORD[0]
    return errors_without(record, way, units(record.found, way, record.spec["sites"])[at])


def all_errors_without(rows: list[dict[str, Any]], record: Record, ways: Sequence[str], workers: int = 2) -> Errors:
    """Errors of every configuration under some ways of leaving out, on several processes.

    Args:
        rows: measured rows.
        record: their record.
        ways: entries of `training.uncertainty.comparable_runs.WAYS` other than `fold`, and release.
        workers: processes.
    """
    merged: Errors = {}
    jobs = [(way, at) for way in ways for at in range(len(units(record.found, way, record.spec["sites"])))]
    forks = multiprocessing.get_start_method() == "fork"  # a record has rules of rows in it, which no pipe carries
    given = (rows, record.derivatives, [record] if forks else [])
    with ProcessPoolExecutor(workers, initializer=_take, initargs=given) as executor:
        for found in executor.map(_unit_errors, *zip(*jobs, strict=True)):
            for ids, errors in found.items():
                merged.setdefault(ids, {}).update(errors)
    return merged


def write_errors(path: Path, found: Sequence[Configuration], errors: Errors) -> None:
    """Every configuration's errors as JSON, one record each."""
    about = [
        {"ids": c.ids, "family": c.case.family, "software": c.software, "device": c.device, "without": errors[c.ids]}
        for c in sorted(found, key=lambda c: c.ids)
        if c.ids in errors
    ]
    path.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
