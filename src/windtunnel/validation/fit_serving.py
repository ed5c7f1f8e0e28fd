"""Refit the coefficients of serving engines: `python -m windtunnel.validation.fit_serving ROWS.json`.

Writes `catalog/coefficients/serving/fitted/<release>.yaml` and `catalog/residuals/serving.json`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from windtunnel.serving.interval import COLUMNS, kind_of, measure_of
from windtunnel.validation.run import load_rows
from windtunnel.validation.serving_cases import Case, Floats, Observation, cases_of, observations, predict
from windtunnel.validation.serving_fit import PRIORS, BlockFit, Fitter, out_of_sample, value_of, with_values

CATALOG = Path(__file__).parent.parent / "catalog"
LEAST_TOLD = 0.05
"""Share of a coefficient's information that rows must bring for it to be written."""


def refit(rows: Sequence[dict[str, Any]], folder: Path, catalog: Path = CATALOG) -> list[str]:
    """Fit, write, and say what was written."""
    cases = cases_of(rows, folder)
    seen = observations(cases)
    priors = {case.block: case.ready.coefficients(fitted=False) for case in cases}
    fitter = Fitter(cases, seen, priors, lambda text: print(text, file=sys.stderr))
    fitter.choose()
    at, covariances, _, slopes = fitter.fit()
    fits = fitter.summary(at, covariances)
    inside, weights = fitter.errors(at)
    errors = out_of_sample(fitter, at, slopes)
    out = [_write(catalog, release, fits, fitter) for release in sorted({fit.block[0] for fit in fits})]
    apart = observations(cases, split=True)
    final = {b: with_values(c, at[b]) for b, c in priors.items()}
    values, full = predict(cases, apart, final)
    beyond = values - np.array([o.log_measured for o in apart])
    lines = residual_lines(cases, seen, errors, inside, weights) + residual_lines(cases, apart, beyond, beyond, full)
    path = catalog / "residuals" / "serving.json"
    head = '{"columns": ' + json.dumps(list(COLUMNS)) + ', "rows": [\n'
    path.write_text(head + ",\n".join(sorted(lines)) + "\n]}\n", "utf-8")
    return [*out, str(path)]


def residual_lines(
    cases: Sequence[Case], seen: Sequence[Observation], errors: Floats, inside: Floats, weights: Floats
) -> list[str]:  # fmt: skip
    """Rows of the residual file: out of sample, in sample, and whether a full cache decides."""
    rows = []
    for o, error, own, weight in zip(seen, errors, inside, weights, strict=True):
        if np.isfinite(error) and np.isfinite(own):
            case = cases[o.case]
            form = "split" if len(case.ready.pools) > 1 else "whole"
            named: list[Any] = [*case.block, kind_of(case.ready.model), measure_of(o.metric), case.group]
            named += [round(float(error), 4), round(float(own), 4), case.family, form, int(weight == 0.0)]
            rows.append(json.dumps(named))
    return rows


def _write(catalog: Path, release: str, fits: Sequence[BlockFit], fitter: Fitter) -> str:
    import yaml

    levels: dict[str, Any] = {}
    for fit in fits:
        if fit.block[0] != release:
            continue
        families = sorted({fitter.cases[fitter.seen[j].case].family for j in fitter.of[fit.block]})
        entries: dict[str, Any] = {}
        for name, value in sorted(fit.values.items()):
            if fit.told[name] < LEAST_TOLD:
                continue
            field, _, key = name.partition(".")
            error, prior = round(fit.errors[name], 3), _short(value_of(fitter.priors[fit.block], name))
            entry = entries.setdefault(
                field, {"value": {} if key else 0.0, "grade": "fitted", "relative_error": {} if key else 0.0,
                        "prior": {} if key else 0.0, "prior_deviation": {} if key else 0.0, "rows": fit.rows,
                        "source": ", ".join(families)},
            )  # fmt: skip
            for slot, number in (
                ("value", _short(value)), ("relative_error", error), ("prior", prior),
                ("prior_deviation", PRIORS[name][0]),
            ):  # fmt: skip
                if key:
                    entry[slot][key] = number
                else:
                    entry[slot] = number
        if entries:
            levels[fit.block[1]] = entries
    path = catalog / "coefficients" / "serving" / "fitted" / f"{release}.yaml"
    path.parent.mkdir(exist_ok=True)
    about = "Fitted to measured rows by `python -m windtunnel.validation.fit_serving`; errors are of logarithms."
    data = {"name": release, "about": about, "coefficients": levels}
    text = yaml.safe_dump(data, sort_keys=False, width=118, default_flow_style=None)
    path.write_text(text, "utf-8")
    return str(path)


def _short(value: float) -> float:
    return float(f"{value:.3g}")


if __name__ == "__main__":
    source = Path(sys.argv[1])
    for line in refit(load_rows(source), source.parent):
        print(line)
