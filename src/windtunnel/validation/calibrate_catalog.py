"""Refit the catalogue's coefficients and residuals: `python -m windtunnel.validation.calibrate_catalog ROWS`.

Writes `catalog/coefficients/fitted/<software>.yaml` (value, standard error, rows that set it) and
`catalog/residuals/training.json` (per class of rows: the spread of residuals predicted without their group).
"""

from __future__ import annotations

import json
import math
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from windtunnel.training.interval import signature
from windtunnel.validation.fitting import Parameter, fit, fold_of, group_of, log_residuals, predict
from windtunnel.validation.rows import RowCase, read

FOLDS = 5
_ROOT = Path(__file__).resolve().parents[1]


def _parameters(group: dict[str, Any], defaults: dict[str, Any]) -> list[Parameter]:
    out = []
    for name, prior in group["fit"].items():
        d = defaults[name]
        out.append(Parameter(name, float(prior), float(d["sigma"]), float(d["low"]), float(d["high"])))
    return out


def _cases(rows: list[dict[str, Any]], group: dict[str, Any]) -> list[tuple[dict[str, Any], RowCase]]:
    from windtunnel import catalog

    out = []
    for row in rows:
        if row.get("family") not in group["families"]:
            continue
        case = read(row)
        if case.scenario is None or case.scenario.training is None or not case.metrics:
            continue
        if "memory" in case.metrics[0].metric or case.scenario.training.framework != group["software"]:
            continue
        device = catalog.resolve_cluster(case.scenario.cluster).device
        if group["level"] == device.generation and device.id in group.get("apart", ()):
            continue  # the device has a fit of its own
        if group["level"] in (device.id, device.generation, device.kind) and math.isfinite(predict(case, {})):
            out.append((row, case))
    return out


def signature_of(case: RowCase) -> str:
    """The (model, cluster) group as predictions know it."""
    from windtunnel.training.predict import prepare

    assert case.scenario is not None
    prepared, _ = prepare(case.scenario)
    return signature(prepared.model, prepared.cluster)


def _lines(data: dict[str, Any]) -> str:
    """JSON with one row a line, so that differences are readable."""
    rows = ",\n".join(json.dumps(row) for row in data["rows"])
    return '{"columns": ' + json.dumps(data["columns"]) + ', "rows": [\n' + rows + "\n]}"


def _thin(cases: list[tuple[dict[str, Any], RowCase]], limits: dict[str, int]) -> list[int]:
    """Indices that take part in the fit: every n-th of families with more rows than the limit."""
    seen: dict[str, int] = defaultdict(int)
    total: dict[str, int] = defaultdict(int)
    for row, _ in cases:
        total[row["family"]] += 1
    keep = []
    for i, (row, _) in enumerate(cases):
        family = row["family"]
        step = max(1, -(-total[family] // limits.get(family, 10**9)))
        if seen[family] % step == 0:
            keep.append(i)
        seen[family] += 1
    return keep


def calibrate_group(
    rows: list[dict[str, Any]], group: dict[str, Any], defaults: dict[str, Any]
) -> tuple[dict[str, Any], list[dict[str, Any]], str]:
    """Fit one (software, level): its coefficients, an out-of-fold residual per row, and a line for people."""
    cases = _cases(rows, group)
    title = f"{group['software']} on {group['level']}"
    if not cases:
        return {}, [], f"{title}: no rows"
    parameters = _parameters(group, defaults)
    keep = _thin(cases, group.get("most_rows", {}))
    share = group.get("family_weight", {})
    weights = np.array([share.get(cases[i][0]["family"], 1.0) for i in keep])
    whole = fit([cases[i][1] for i in keep], parameters, weights, iterations=4)
    families = ", ".join(group["families"])
    fitted = {
        name: {
            "value": float(f"{value:.4g}"), "relative_error": round(whole.errors[name], 4), "grade": "fitted",
            "source": f"{len(cases)} rows of {families}", "prior": float(group["fit"][name]),
        }
        for name, value in whole.values.items()
    }  # fmt: skip
    residuals: list[dict[str, Any]] = []
    of = _folds(cases, by_device=bool(group.get("kind_of_device")))
    for k in range(max(of) + 1):
        out = [i for i in range(len(cases)) if of[i] == k]
        if not out:
            continue
        train = [j for j, i in enumerate(keep) if of[i] != k]
        values = {p.name: p.prior for p in parameters}
        if train:
            values = fit([cases[keep[j]][1] for j in train], parameters, weights[train], iterations=3).values
        for i, r in zip(out, log_residuals([cases[i][1] for i in out], values), strict=True):
            row, case = cases[i]
            residuals.append(
                {
                    "id": row["id"], "family": row["family"], "software": group["software"], "device": case.device,
                    "moe": bool((row.get("model") or {}).get("experts")), "signature": signature_of(case),
                    "error": math.expm1(float(r)),
                }
            )  # fmt: skip
    errors = np.abs([x["error"] for x in residuals])
    values_text = ", ".join(f"{k} {v:.4g}" for k, v in whole.values.items())
    mean, median = 100 * errors.mean(), 100 * np.median(errors)
    text = f"{title}: {len(cases)} rows, {len(keep)} in the fit; {values_text}"
    if group.get("kind_of_device"):  # its rows' intervals come from the fits of their own generations
        return fitted, [], f"{text}; leaving out whole devices mean {mean:.2f} %, median {median:.2f} %"
    text += f"; out of fold mean {mean:.2f} %, median {median:.2f} %"
    return fitted, residuals, text


def _folds(cases: list[tuple[dict[str, Any], RowCase]], *, by_device: bool) -> list[int]:
    """Fold of each row: whole (model, cluster) groups, or whole devices for the level of a kind of device."""
    if not by_device:
        return [fold_of(group_of(row)) for row, _ in cases]
    devices = sorted({case.device for _, case in cases})
    return [devices.index(case.device) for _, case in cases]


def calibrate(
    rows: list[dict[str, Any]], groups: list[dict[str, Any]], defaults: dict[str, Any], *, workers: int = 2
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Fitted files by software, and one out-of-fold residual per row."""
    from concurrent.futures import ProcessPoolExecutor

    fitted: dict[str, Any] = defaultdict(dict)
    residuals: list[dict[str, Any]] = []
    with ProcessPoolExecutor(workers) as pool:
        jobs = [(group, pool.submit(calibrate_group, rows, group, defaults)) for group in groups]
        for group, job in jobs:
            values, own, text = job.result()
            print(text, flush=True)
            if values:
                fitted[group["software"]][group["level"]] = values
            residuals += own
    return dict(fitted), residuals


def _write(fitted: dict[str, Any], residuals: list[dict[str, Any]]) -> None:
    import yaml

    folder = _ROOT / "catalog/coefficients/fitted"
    folder.mkdir(exist_ok=True)
    for software, levels in fitted.items():
        text = yaml.safe_dump({"name": f"{software}, fitted", "coefficients": levels}, sort_keys=False, width=120)
        (folder / f"{software}.yaml").write_text("# Written by validation.calibrate_catalog; do not edit.\n" + text)
    from windtunnel.validation.residuals import table

    target = _ROOT / "catalog/residuals/training.json"
    target.parent.mkdir(exist_ok=True)
    data = table(residuals)
    if target.is_file():  # software that was not refitted keeps its record
        kept = [row for row in json.loads(target.read_text())["rows"] if row[0] not in fitted]
        data["rows"] = sorted(data["rows"] + kept, key=str)
    target.write_text(_lines(data) + "\n")


def main() -> None:
    """Command line: the rows file, and optionally software names to refit alone."""
    import yaml

    rows = json.loads(Path(sys.argv[1]).read_text())
    spec = yaml.safe_load((Path(__file__).with_name("calibration.yaml")).read_text())
    chosen = set(sys.argv[2:])
    groups = [g for g in spec["groups"] if not chosen or g["software"] in chosen]
    for g in groups:  # a device with a fit of its own takes no part in its generation's
        g["apart"] = [o["level"] for o in groups if o["software"] == g["software"] and o is not g]
    fitted, residuals = calibrate(rows, groups, spec["defaults"])
    _write(fitted, residuals)
    for family in sorted({r["family"] for r in residuals}):
        e = np.array([r["error"] for r in residuals if r["family"] == family])
        mean, median, bias = 100 * np.abs(e).mean(), 100 * np.median(np.abs(e)), 100 * e.mean()
        print(f"{family:22s} n {len(e):4d} mean {mean:5.2f} median {median:5.2f} bias {bias:+5.2f}")


if __name__ == "__main__":
    main()
