"""Refit the coefficients of serving engines: `python -m windtunnel_lab.fit.refit_serving ROWS.json`.

Writes `catalog/coefficients/serving/fitted/<release>.yaml` and `catalog/residuals/serving.json`. With `--only
RELEASE/GENERATION …` those sets alone are fitted anew: sets with rows of several models do not depend on each other, so
that a change which touches the rows of some leaves the others, and what sets without rows take from all, as they are.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import windtunnel
from windtunnel.arrays import Floats
from windtunnel.calibration.server_priors import PRIORS
from windtunnel.catalog import device, devices
from windtunnel.cost.serving import prior_of
from windtunnel.serving.results.joint_draws import RunShape
from windtunnel.serving.results.measured_residuals import COLUMNS, Residual, kind_of, measure_of
from windtunnel.serving.results.run_shape import whole_run
from windtunnel.validation.predict.serving_run import run
from windtunnel.validation.rows.row_files import load_rows, shipped_serving_rows
from windtunnel_lab.fit.serving import THIN, BlockFit, Fitter, State, out_of_sample
from windtunnel_lab.fit.serving_cases import Case, Observation, cases_of, observations, predict
from windtunnel_lab.fit.serving_leave_out import deviations, left_out_sets
from windtunnel_lab.fit.serving_pooling import Block, Known, expected
from windtunnel_lab.fit.serving_priors import value_of

CATALOG = Path(windtunnel.__file__).parent / "catalog"
LEAST_TOLD, LEAST_MOVE = 0.05, 0.01
"""Share of a coefficient's information that rows must bring, or log factor that they must have found, to be written."""
KEPT = ("vllm_2023",)
"""Release lines whose file stays: its rows are one session's under load, which put what the server in the loop costs on
products and element-wise work (docs/accuracy/serving.md)."""
POOLED = "rows of other sets that share the engine or the devices"


@dataclass(frozen=True, slots=True)
class Refit:
    """A fit to all rows, and how far off its predictions are."""

    fitter: Fitter
    best: State
    residuals: list[Residual]


def fitted_residuals(rows: Sequence[dict[str, Any]], folder: Path, only: Collection[Block] = ()) -> Refit:
    """Fit, and leave out: each group, each set.

    Args:
        rows: measured rows.
        folder: where the traces lie that they name.
        only: sets that are fitted; none: all.

    Raises:
        ValueError: a set of `only` has no rows, or too few models to be fitted without the others.
    """
    cases = [case for case in cases_of(rows, folder) if not only or case.block in only]
    seen = observations(cases)
    fitter = Fitter(cases, seen, lambda text: print(text, file=sys.stderr))
    if lacking := set(only) - set(fitter.thick):
        raise ValueError(f"{sorted('/'.join(b) for b in lacking)}: not sets with rows of {THIN} models or more")
    best = fitter.fit()
    errors = out_of_sample(fitter, best)
    apart = observations(cases, apart=True)
    values, full = predict(cases, apart, best.at)
    beyond = values - np.array([o.log_measured for o in apart])
    own, others = left_out_sets(fitter, best, cases, apart)
    shapes = run_shapes(cases)
    found = residual_rows(cases, seen, (errors, best.errors, own), best.weights, shapes)
    return Refit(fitter, best, found + residual_rows(cases, apart, (beyond, beyond, others), full, shapes))


def run_shapes(cases: Sequence[Case]) -> list[RunShape]:
    """How answers and tokens a second of each case follow from first tokens and steps, by the catalogue's costs."""
    out = []
    for case in cases:
        served = run(case.ready)
        out.append(whole_run(case.ready.serving.traffic, served.requests, served.request_s))
    return out


def refit(
    rows: Sequence[dict[str, Any]], folder: Path, catalog: Path = CATALOG, only: Collection[Block] = ()
) -> list[str]:
    """Fit, write, and say what was written.

    Args:
        rows: measured rows.
        folder: where the traces lie that they name.
        catalog: what is written to.
        only: sets that are fitted; none: all.
    """
    found = fitted_residuals(rows, folder, only)
    fits = found.fitter.summary(found.best)
    releases = sorted({fit.block[0] for fit in fits} - set(KEPT))
    out = [_write(catalog, release, fits, found.fitter, found.best, kept=bool(only)) for release in releases]
    path = catalog / "residuals" / "serving.json"
    residuals = [*_others(path, only), *found.residuals]
    told = deviations([row for row in residuals if not row[COLUMNS.index("cache_full")]])
    between = {form: own.between for form, own in told.items()}
    between_correlated = {form: own.correlation for form, own in told.items()}
    head = f'{{"columns": {json.dumps(list(COLUMNS))}, "between_sets": {json.dumps(between)}, '
    head += f'"correlation": {json.dumps(between_correlated)}, "rows": [\n'
    lines = sorted(json.dumps(row) for row in residuals)
    path.write_text(head + ",\n".join(lines) + "\n]}\n", "utf-8")
    return [*out, str(path)]


def _others(path: Path, only: Collection[Block]) -> list[Residual]:
    """Residuals of sets that are not fitted anew."""
    if not only:
        return []
    known = json.loads(path.read_text("utf-8"))["rows"]
    return [tuple(row) for row in known if (row[0], row[1]) not in only]


def residual_rows(
    cases: Sequence[Case],
    seen: Sequence[Observation],
    errors: tuple[Floats, Floats, Floats],
    weights: Floats,
    shapes: Sequence[RunShape],
) -> list[Residual]:
    """Rows of the residual file.

    Args:
        cases: scenarios.
        seen: what was measured of them.
        errors: with the group left out, in sample, with the set left out.
        weights: 0 where a full cache decides.
        shapes: of each case's run.
    """
    rows: list[Residual] = []
    for o, apart, own, site, weight in zip(seen, *errors, weights, strict=True):
        if np.isfinite(apart) and np.isfinite(own):
            case = cases[o.case]
            form = "split" if len(case.ready.pools) > 1 else "whole"
            named = (*case.block, kind_of(case.ready.model), measure_of(o.metric), case.group)
            left_out = round(float(site if np.isfinite(site) else apart), 4)
            sizes = (round(float(apart), 4), round(float(own), 4))
            shape = shapes[o.case]
            parts = (shape.first_token_share, shape.rate_share, shape.arrival_deviation)
            shared = (case.ids[0], shape.load, *(round(part, 4) for part in parts))
            rows.append((*named, *sizes, case.family, form, int(weight == 0.0), left_out, *shared))
    return rows


def _write(
    catalog: Path, release: str, fits: Sequence[BlockFit], fitter: Fitter, best: State, *, kept: bool = False
) -> str:
    """Write one release line's file; with `kept` the levels that were not fitted stay as they are."""
    import yaml

    mine = {fit.block[1]: fit for fit in fits if fit.block[0] == release}
    path = catalog / "coefficients" / "serving" / "fitted" / f"{release}.yaml"
    levels: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))["coefficients"] if kept else {}
    for generation in [*mine, *(g for g in _generations() if g not in mine and not kept)]:
        fit = mine.get(generation)
        entries = _own(fit, fitter) if fit else _shared((release, generation), fitter, best)
        levels.pop(generation, None)
        if entries:
            levels[generation] = entries
    path.parent.mkdir(parents=True, exist_ok=True)
    about = (
        "Fitted to measured rows by `python -m windtunnel_lab.fit.refit_serving`; errors are of logarithms. A "
        "value over its prior is a factor on the prior of every device of the level; `pooled`: told by other sets' "
        "rows."
    )
    data = {"name": release, "about": about, "coefficients": levels}
    text = yaml.safe_dump(data, sort_keys=False, width=118, default_flow_style=None)
    path.write_text(text, "utf-8")
    return str(path)


def _generations() -> list[str]:
    """Levels of the generic priors."""
    import yaml

    path = CATALOG / "coefficients" / "serving" / "generic.yaml"
    known = {device(name).generation for name in devices()}
    levels = yaml.safe_load(path.read_text("utf-8"))["coefficients"]
    return [name for name in levels if name in known or name == "default"]


def _own(fit: BlockFit, fitter: Fitter) -> dict[str, Any]:
    """Entries of a set with rows of its own."""
    families = sorted({fitter.cases[fitter.seen[j].case].family for j in fitter.of[fit.block]})
    entries: dict[str, Any] = {}
    for name, own in sorted(fit.logs.items()):
        if max(fit.told.get(name, 0.0) / LEAST_TOLD, abs(own.log) / LEAST_MOVE) < 1.0:
            continue
        grade, source = ("fitted", ", ".join(families)) if name in fit.told else ("pooled", POOLED)
        _enter(entries, fit.block, name, own, grade, source)
    for entry in entries.values():
        if entry["grade"] == "fitted":
            entry["rows"] = fit.rows
    return entries


def _shared(block: Block, fitter: Fitter, best: State) -> dict[str, Any]:
    """Entries of a set without rows: what sets that share its engine or its devices have found."""
    entries: dict[str, Any] = {}
    for name in sorted(PRIORS):
        if value_of(prior_of(*block), name) > 0:
            own = expected(name, PRIORS[name][0], block, fitter.told(name, best))
            if abs(own.log) >= LEAST_MOVE:
                _enter(entries, block, name, own, "pooled", POOLED)
    return entries


def _enter(entries: dict[str, Any], block: Block, name: str, own: Known, grade: str, source: str) -> None:
    field, _, key = name.partition(".")
    prior, roof = value_of(prior_of(*block), name), PRIORS[name][1]
    numbers = {
        "value": _short(min(prior * math.exp(own.log), max(roof, prior))),
        "prior": _short(prior),
        "relative_error": round(own.error, 3),
        "prior_deviation": PRIORS[name][0],
    }
    if math.isfinite(roof):
        numbers["most"] = roof
    entry = entries.setdefault(field, {})
    for slot, number in numbers.items():
        if key:
            entry.setdefault(slot, {})[key] = number
        else:
            entry[slot] = number
    if entry.get("grade") != "fitted":
        entry["grade"], entry["source"] = grade, source


def _short(value: float) -> float:
    return float(f"{value:.3g}")


def main(arguments: Sequence[str]) -> None:
    """`ROWS.json [--only RELEASE/GENERATION …]`."""
    source, *rest = arguments
    only = {(release, generation) for release, _, generation in (text.partition("/") for text in rest[1:])}
    path = Path(source)
    for line in refit(load_rows(path) + shipped_serving_rows(), path.parent, only=only):
        print(line)


if __name__ == "__main__":
    main(sys.argv[1:])
