"""Rows predicted as if their device, their software or the pair had never been measured.

What the catalogue would use then: the fit of the same software on the same generation without that device's rows, else
data-sheet values of the generation scaled as the remaining software and generations are (`cost.pooled`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import mean, median
from typing import Any

from windtunnel.cost.coefficient_files import lineage
from windtunnel.cost.coefficients import resolve
from windtunnel.validation.fit.configurations import Configuration, configurations
from windtunnel.validation.fit.group_fit import GroupFit
from windtunnel.validation.fit.pooling import observations, pool
from windtunnel.validation.fit.residuals import lines, table
from windtunnel.validation.fit.training import log_residuals
from windtunnel.validation.rows.row_files import load_rows, shipped_rows

_ROOT = Path(__file__).resolve().parents[2]
_LEFT_OUT = _ROOT / "catalog/residuals/left_out.json"
Fitted = dict[str, dict[str, Any]]


def remaining(fits: list[GroupFit], way: str, software: str, device: str) -> Fitted:
    """Software → level → fit, after leaving out.

    Args:
        fits: every group.
        way: `pair`, `device` or `software`, see `training.uncertainty.comparable_runs.WAYS`.
        software: what is left out by `pair` and `software`.
        device: what is left out by `pair` and `device`.
    """
    out: Fitted = {}
    for f in fits:
        touched = (way == "device" or f.software == software) and device in f.devices
        section: dict[str, Any] | None = f.fitted or None
        if way == "software" and f.software == software:
            section = None
        elif way != "software" and touched:
            section = f.without.get(device)
        if section:
            out.setdefault(f.software, {})[f.level] = section
    return out


def unseen_coefficients(
    fitted: Fitted, pooled: dict[str, Any], software: str, levels: tuple[str, str, str], measured: Collection[str] = ()
) -> tuple[Any, dict[str, float]]:
    """(coefficients, fitted values on top) that the catalogue would use with these fits alone.

    Args:
        fitted: what is left.
        pooled: effects estimated from it.
        software: framework.
        levels: kind, generation and id of the device.
        measured: software with a fit before anything was left out.
    """
    family = lineage(software)
    unseen = {name: set(levels) - set(fitted.get(name, {})) for name in family}
    for name in family:
        if name not in fitted and name in measured:  # nothing left of it: its own starting values came from its rows
            unseen[name].add("default")
    without = frozenset((name, level) for name, found in unseen.items() for level in found)
    base = resolve(software, *reversed(levels), without=without, pooled=pooled)
    own = next((fitted[name] for name in family if set(levels) & set(fitted.get(name, {}))), {})
    values = {name: float(entry["value"]) for level in levels for name, entry in own.get(level, {}).items()}
    return base, values


def _left_out(found: list[Configuration], fits: list[GroupFit]) -> Iterator[tuple[str, str, str]]:
    """(way, software, device) of every unit, empty where it does not matter."""
    pairs = sorted({(c.software, c.device) for c in found})
    for software, device in pairs:
        yield "pair", software, device
    for device in sorted({device for _, device in pairs}):
        yield "device", "", device
    for software in sorted({f.software for f in fits}):
        yield "software", software, ""


def transfer_errors(
    rows: list[dict[str, Any]], fits: list[GroupFit], defaults: dict[str, Any], half: tuple[int, int] = (0, 1)
) -> dict[tuple[str, ...], dict[str, float]]:
    """Rows of a configuration → way of leaving out → predicted / measured − 1.

    Args:
        rows: measured rows.
        fits: every group.
        defaults: of `priors.yaml`.
        half: (which, of how many) units this process takes.
    """
    found = configurations(rows)
    whole: Fitted = {}
    for f in fits:
        if f.fitted:
            whole.setdefault(f.software, {})[f.level] = f.fitted
    _, scales = pool(observations(whole, defaults), defaults)
    out: dict[tuple[str, ...], dict[str, float]] = {}
    for index, (way, software, device) in enumerate(_left_out(found, fits)):
        if index % half[1] != half[0]:
            continue
        fitted = remaining(fits, way, software, device)
        pooled, _ = pool(observations(fitted, defaults), defaults, scales)
        for c in found:
            if (software and c.software != software) or (device and c.device != device):
                continue
            base, values = unseen_coefficients(fitted, pooled, c.software, (c.kind, c.generation, c.device), whole)
            out.setdefault(c.ids, {})[way] = math.expm1(float(log_residuals([c.case], values, base)[0]))
    return out


def never_fitted(found: list[Configuration], fits: list[GroupFit]) -> dict[tuple[str, ...], float]:
    """Errors of configurations that took part in no fit although their software and device have one."""
    seen = {ids for f in fits for ids in f.folds}
    known = {(f.software, d) for f in fits for d in f.devices}
    return {
        c.ids: math.expm1(float(log_residuals([c.case], {})[0]))
        for c in found
        if c.ids not in seen and (c.software, c.device) in known
    }


def _in_halves(
    run: Callable[..., dict[tuple[str, ...], dict[str, float]]], *arguments: Any, workers: int = 2
) -> dict[tuple[str, ...], dict[str, float]]:
    merged: dict[tuple[str, ...], dict[str, float]] = {}
    with ProcessPoolExecutor(workers) as executor:
        for job in [executor.submit(run, *arguments, (k, workers)) for k in range(workers)]:
            for ids, errors in job.result().items():
                merged.setdefault(ids, {}).update(errors)
    return merged


def write_transfer(rows: list[dict[str, Any]], fits: list[GroupFit], defaults: dict[str, Any]) -> None:
    """Pooled effects and the residual file, from a calibration of every group."""
    import yaml

    whole: Fitted = {}
    for f in fits:
        if f.fitted:
            whole.setdefault(f.software, {})[f.level] = f.fitted
    effects, scales = pool(observations(whole, defaults), defaults)
    data = {"name": "pooled", "scales": scales, "pooled": effects}
    text = yaml.safe_dump(data, sort_keys=False, width=120)
    note = "# Written by validation.fit.leave_out; do not edit. Effects are natural logarithms.\n"
    (_ROOT / "catalog/coefficients/fitted/pooled.yaml").write_text(note + text)
    errors = _in_halves(transfer_errors, rows, fits, defaults)
    found = configurations(rows)
    for f in fits:
        for ids, error in f.folds.items():
            errors.setdefault(ids, {})["fold"] = error
    for ids, error in never_fitted(found, fits).items():
        errors.setdefault(ids, {})["fold"] = error
    target = _ROOT / "catalog/residuals/training.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(lines(table([(c, errors.get(c.ids, {})) for c in found])))
    _write_left_out(fits)


def stored_fits() -> list[GroupFit]:
    """The groups that ship, with their fits without a device: what a rerun without refitting needs."""
    import yaml

    out = []
    for entry in json.loads(_LEFT_OUT.read_text()):
        path = _ROOT / f"catalog/coefficients/fitted/{entry['software']}.yaml"
        levels = yaml.safe_load(path.read_text())["coefficients"]
        fitted = levels.get(entry["level"], {})
        out.append(
            GroupFit(
                software=entry["software"],
                level=entry["level"],
                fitted=fitted,
                folds={},
                without=entry["without"],
                devices=tuple(entry["devices"]),
            )
        )
    return out


def _write_left_out(fits: list[GroupFit]) -> None:
    data = [
        {"software": f.software, "level": f.level, "devices": f.devices, "without": f.without} for f in fits if f.fitted
    ]
    _LEFT_OUT.write_text("[\n" + ",\n".join(json.dumps(entry) for entry in data) + "\n]\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Left-out errors with the fits that ship: median and mean by device and software; every error as JSON."""
    import argparse

    import yaml

    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("rows", type=Path, nargs="?", help="JSON list of measured rows; absent: the rows we ship")
    parser.add_argument("--out", type=Path, help="file for every configuration's errors")
    options = parser.parse_args(arguments)
    rows = load_rows(options.rows) if options.rows else shipped_rows()
    spec = yaml.safe_load(Path(__file__).with_name("priors.yaml").read_text("utf-8"))
    errors = _in_halves(transfer_errors, rows, stored_fits(), spec["defaults"])
    about = {c.ids: c for c in configurations(rows)}
    if options.out:
        found = [
            {"ids": ids, "family": c.case.family, "software": c.software, "device": c.device, "without": errors[ids]}
            for ids, c in sorted(about.items())
            if ids in errors
        ]
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for way in ("device", "software", "pair"):
        units: dict[tuple[str, str], list[float]] = {}
        for ids, own in errors.items():
            if way in own:
                units.setdefault((about[ids].device, about[ids].software), []).append(abs(own[way]))
        print(f"without its {way if way != 'pair' else 'software on that device'}: configurations, median, mean error")
        for (device, software), sizes in sorted(units.items()):
            print(f"  {device:18s} {software:20s} {len(sizes):5d} {median(sizes):7.1%} {mean(sizes):7.1%}")


if __name__ == "__main__":
    main()
